/* probe.c -- the items of the probe.
 *   probe --list   names of the items, each with its time limit in seconds
 *   probe NAME     one item, in this process: lines `key TAB JSON value`
 * Exits 0 when the item has run to its end, 77 where it cannot be asked here, with the reason as
 * last line. tests/gpu/kit/truth.py runs them all. */
#include "probe.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CAPTURES(mode)                                                                             \
	{"capture." mode ".other.plain", probe_capture, mode " other plain", 60},                  \
		{"capture." mode ".other.relaxed", probe_capture, mode " other relaxed", 60},      \
		{"capture." mode ".same.plain", probe_capture, mode " same plain", 60},            \
	{                                                                                          \
		"capture." mode ".same.relaxed", probe_capture, mode " same relaxed", 60           \
	}
#define ODD_FREE(kind)                                                                             \
	{                                                                                          \
		"odd_free." kind, probe_odd_free, kind, 30                                         \
	}
#define WAITS(kind)                                                                                \
	{                                                                                          \
		"free_waits." kind, probe_free_waits, kind, 30                                     \
	}
#define SEES(kind)                                                                                 \
	{                                                                                          \
		"record_sees." kind, probe_record_sees, kind, 30                                   \
	}

static const struct probe_item items[] = {
	{"machine", probe_machine, "", 60},
	{"cost.calls", probe_call_costs, "", 60},
	{"cost.events.1", probe_event_costs, "1", 60},
	{"cost.events.8", probe_event_costs, "8", 60},
	{"cost.events.32", probe_event_costs, "32", 60},
	{"cost.events.16_threads", probe_thread_costs, "16", 60},
	WAITS("null"),
	WAITS("blocking"),
	WAITS("non_blocking"),
	WAITS("per_thread"),
	WAITS("other_context"),
	SEES("null"),
	SEES("blocking"),
	SEES("non_blocking"),
	SEES("per_thread"),
	SEES("graph"),
	SEES("green"),
	SEES("other_context"),
	SEES("peer_copy"),
	CAPTURES("global"),
	CAPTURES("thread"),
	CAPTURES("relaxed"),
	{"lookup", probe_lookup, "", 30},
	{"ranges", probe_ranges, "", 30},
	{"granularity", probe_granularity, "", 60},
	{"freed_in_stream", probe_freed_in_stream, "", 30},
	ODD_FREE("double"),
	ODD_FREE("interior"),
	ODD_FREE("null"),
	ODD_FREE("unknown"),
	ODD_FREE("other_context_current"),
	ODD_FREE("no_context_current"),
	ODD_FREE("after_context_destroy"),
	ODD_FREE("after_primary_reset"),
	ODD_FREE("async_of_sync"),
	ODD_FREE("sync_of_async"),
	ODD_FREE("sync_of_managed"),
	ODD_FREE("sync_of_pinned"),
	{"sticky", probe_sticky, "", 30},
	{"free_of_broken", probe_free_of_broken, "", 30},
	{"fork", probe_fork, "", 30},
	{"exit", probe_exit, "", 30},
};

/* ---- what an item says ---- */

static void say(const char *value, const char *key, va_list arguments)
{
	vprintf(key, arguments);
	printf("\t%s\n", value);
	fflush(stdout);
}

#define SAY(...)                                                                                   \
	do {                                                                                       \
		char text[512];                                                                    \
		va_list arguments;                                                                 \
		snprintf(text, sizeof text, __VA_ARGS__);                                          \
		va_start(arguments, key);                                                          \
		say(text, key, arguments);                                                         \
		va_end(arguments);                                                                 \
	} while (0)

void say_number(double value, const char *key, ...)
{
	SAY("%.15g", value);
}

void say_bool(bool value, const char *key, ...)
{
	SAY("%s", value ? "true" : "false");
}

void say_code(int value, const char *key, ...)
{
	SAY("%d", value);
}

void say_text(const char *value, const char *key, ...)
{
	char clean[256];
	size_t at = 0;

	for (; *value && at + 1 < sizeof clean; value++)
		clean[at++] = *value < ' ' || *value == '"' || *value == '\\' ? '\'' : *value;
	clean[at] = 0;
	SAY("\"%s\"", clean);
}

void say_samples(double *samples, size_t count, const char *key, ...)
{
	va_list arguments;
	char name[256];

	if (!count)
		return;
	va_start(arguments, key);
	vsnprintf(name, sizeof name, key, arguments);
	va_end(arguments);
	say_number(gpu_quantile(samples, count, 0.5), "%s_ns", name);
	say_number(gpu_quantile(samples, count, 0.95), "%s_p95_ns", name);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (size_t i = 0; i < sizeof items / sizeof *items; i++)
			printf("%s %d\n", items[i].name, items[i].limit_s);
		return 0;
	}
	for (size_t i = 0; argc == 2 && i < sizeof items / sizeof *items; i++)
		if (strcmp(items[i].name, argv[1]) == 0) {
			items[i].run(items[i].argument);
			return 0;
		}
	fprintf(stderr, "probe: --list, or one name of its list\n");
	return 2;
}
