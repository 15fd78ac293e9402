/* fuzz_settings.c -- what people write, and what mtctl asks a process for: the environment and
 * MT_MALLOC_CONF as the shim reads them; NAME=VALUE, quantities and times as mtctl does; the
 * control file as the worker does, with settings changed by it.
 *
 * Parts of an input: %%env (an entry on each line), %%set, %%quantity, %%number,
 * %%name (one on each line); %%program; %%request (lines "kind 3", "level 1", "name ...", "value
 * ...", "seq 5", "magic 0", "version 1", "cut 40"); %%rawcontrol; %%policy. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "heap/jemalloc_internal.h"
#include "core/config.h"
#include "sys/os.h"
#include "fuzz.h"
#include "purge/purge.h"
#include "core/control_file.h"
#include "purge/policy.h"
#include "settings_ctl.h"
#include "core/files.h"
#include "core/publish.h"
#include "core/stats_layout.h"
#include "core/core_internal.h"

#define ENTRIES_MOST 64

static unsigned complaints_count;

static void complain(const char *line)
{
	complaints_count++;
	fuzz_expect_text("a complaint", line, MT_CONFIG_ERROR_MAX);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static char nothing[] = "NOTHING=1";

	(void)argc;
	(void)argv;
	for (size_t i = 0; environ && environ[i]; i++)
		if (strncmp(environ[i], "MT_", 3) == 0 ||
		    strncmp(environ[i], "MALLOC_CONF=", 12) == 0)
			environ[i] = nothing;
	return 0;
}

/* ---- the environment ---- */

static size_t split(char *text, const char **list)
{
	size_t count = 0;

	for (char *line; count < ENTRIES_MOST && (line = fuzz_line(&text));)
		list[count++] = line;
	list[count] = NULL;
	return count;
}

/* A setting as it is told is taken again, and is the same then. */
static void expect_round_trip(const struct mt_config *config)
{
	static char texts[MT_OPTION_COUNT][MT_TEXT_MAX + 64];
	const char *list[MT_OPTION_COUNT + 1];
	struct mt_config again;
	char value[MT_TEXT_MAX], told[MT_TEXT_MAX], origin[64];

	for (int option = 0; option < MT_OPTION_COUNT; option++) {
		char *text = texts[option];
		int used = snprintf(text, sizeof(texts[0]),
				    "MT_%s=", mt_config_name((enum mt_option)option));

		for (int i = 0; i < used; i++)
			text[i] = text[i] >= 'a' && text[i] <= 'z' ? (char)(text[i] - 'a' + 'A')
								   : text[i];
		mt_config_format(config, (enum mt_option)option, value, sizeof(value));
		mt_config_format_origin(config, (enum mt_option)option, origin, sizeof(origin));
		fuzz_expect_text("an origin", origin, sizeof(origin));
		memcpy(text + used, value, strlen(value) + 1);
		list[option] = text;
	}
	list[MT_OPTION_COUNT] = NULL;
	complaints_count = 0;
	mt_config_parse(list, &again, complain);
	fuzz_expect(!complaints_count, "%u complaints about what was told", complaints_count);
	for (int option = 0; option < MT_OPTION_COUNT; option++) {
		mt_config_format(config, (enum mt_option)option, value, sizeof(value));
		mt_config_format(&again, (enum mt_option)option, told, sizeof(told));
		fuzz_expect(strcmp(value, told) == 0, "%s: %s, then %s",
			    mt_config_name((enum mt_option)option), value, told);
	}
}

/* What the shim takes, mtctl must not refuse: its check is the lighter one. */
static void expect_agreement(const char *entry)
{
	const char *list[] = {entry, NULL}, *equals = strchr(entry, '=');
	struct mt_config config;
	char name[64];

	if (strncmp(entry, "MT_", 3) != 0 || !equals || (size_t)(equals - entry) >= sizeof(name))
		return;
	memcpy(name, entry, (size_t)(equals - entry));
	name[equals - entry] = '\0';
	complaints_count = 0;
	mt_config_parse(list, &config, complain);
	fuzz_expect(complaints_count || mtctl_takes(name, equals + 1), "%s", entry);
}

static void read_environment(char *text, const char *program, struct mt_config *config)
{
	const char *list[ENTRIES_MOST + 1];
	struct mt_launch_env facts;
	size_t count = split(text, list);
	char conf[768], small[40];

	mt_config_parse(list, config, complain);
	mt_config_parse_launch_env(list, &facts);
	fuzz_expect_text("a rank", facts.rank, sizeof(facts.rank));
	fuzz_expect(strspn(facts.rank, "0123456789") == strlen(facts.rank), "rank %s", facts.rank);
	fuzz_expect(strnlen(facts.pressure_watch, MT_TEXT_MAX) < MT_TEXT_MAX, "%s",
		    "a text without its end");
	fuzz_expect(!mt_config_admits(config, program) || config->enable, "%s", program);
	mt_jemalloc_conf(config, conf, sizeof(conf));
	fuzz_expect(strlen(conf) < sizeof(conf), "%s", conf);
	mt_jemalloc_conf(config, small, sizeof(small));
	fuzz_expect(strncmp(conf, small, strcspn(small, ",")) == 0, "%s, %s", small, conf);
	expect_round_trip(config);
	for (size_t i = 0; i < count; i++)
		expect_agreement(list[i]);
}

/* ---- the control file ---- */

static char control_path[512];
static uint64_t next_seq;

/* A new one for each input that needs it: changes by one input must not reach the next. */
static void make_control(void)
{
	struct mt_config config;
	uint64_t ticks, space;
	int at = -1;

	mt_files_remove();
	mt_files_fork_child();
	mt_control_fork_child();
	mt_config_defaults(&config);
	snprintf(config.dir, sizeof(config.dir), "%s", fuzz_root());
	if (mt_files_open_folder(&config, &at) != MT_ERR_OK)
		abort();
	(void)mt_publish_lock();
	if (mt_files_make(at, &ticks, &space) != MT_ERR_OK)
		abort();
	mt_publish_unlock();
	close(at);
	snprintf(control_path, sizeof(control_path), "%s/%d-%llu-%llu.control", fuzz_root(),
		 (int)getpid(), (unsigned long long)ticks, (unsigned long long)space);
	mt_control_use_file(false);
}

static void drop_control(void)
{
	mt_files_remove();
	mt_files_fork_child();
	mt_control_fork_child();
	*control_path = '\0';
}

static void put_control(const void *bytes, size_t count)
{
	FILE *file = fopen(control_path, "r+");

	if (!file || ftruncate(fileno(file), (off_t)count) != 0 ||
	    fwrite(bytes, 1, count, file) != count || fclose(file) != 0)
		abort();
}

/* Nobody changes by the control file what is read at the start alone: paths above all. */
static void set(const struct mt_request *request)
{
	struct mt_config before = *mt_config(), wanted = before;
	enum mt_err error = mt_config_set(&wanted, request->name, request->value);
	char value[MT_TEXT_MAX];

	if (error) {
		fuzz_expect(memcmp(&before, &wanted, sizeof(before)) == 0, "%s=%s was refused",
			    request->name, request->value);
		return;
	}
	fuzz_expect(mt_config_set_live(request->name, request->value) == MT_ERR_OK, "%s",
		    request->name);
	fuzz_expect(memcmp(mt_config(), &wanted, sizeof(wanted)) == 0, "%s=%s", request->name,
		    request->value);
#define STAYS(field)                                                                               \
	fuzz_expect(memcmp(&before.field, &wanted.field, sizeof(before.field)) == 0, "%s", #field)
	STAYS(enable);
	STAYS(dir);
	STAYS(log);
	STAYS(cgroup);
	STAYS(malloc_conf);
	STAYS(only);
	STAYS(exclude);
#undef STAYS
	for (int option = 0; option < MT_OPTION_COUNT; option++) {
		mt_config_format(&wanted, (enum mt_option)option, value, sizeof(value));
		fuzz_expect_text("a setting", value, sizeof(value));
	}
}

static void ring(const void *bytes, size_t count)
{
	struct mt_request request;

	if (!*control_path)
		make_control();
	put_control(bytes, count);
	(void)mt_control_read_word();
	if (!mt_control_read_request(&request))
		return;
	fuzz_expect(count >= sizeof(struct mt_control_file), "a request out of %zu bytes", count);
	/* COUNT stands for one that this library does not know: it is answered so. */
	fuzz_expect(request.kind > MT_REQUEST_NONE && request.kind <= MT_REQUEST_COUNT, "kind %u",
		    request.kind);
	fuzz_expect(request.level < MT_LEVEL_COUNT, "level %u", request.level);
	fuzz_expect(strnlen(request.name, sizeof(request.name)) < sizeof(request.name), "%s",
		    "a name without its end");
	fuzz_expect(strnlen(request.value, sizeof(request.value)) < sizeof(request.value), "%s",
		    "a value without its end");
	fuzz_expect(!mt_control_read_request(&(struct mt_request){0}), "%s",
		    "one request is told twice");
	if (request.kind == MT_REQUEST_SET)
		set(&request);
}

static bool take_text(const char *line, const char *word, char *out, size_t room)
{
	size_t length = strlen(word), bytes;

	if (strncmp(line, word, length) != 0)
		return false;
	bytes = strlen(line + length);
	memcpy(out, line + length, bytes < room ? bytes : room);
	return true;
}

static void ring_request(char *text)
{
	struct mt_control_file file = {.magic = MT_CONTROL_MAGIC,
				       .version = MT_STATS_VERSION,
				       .request = {.seq = ++next_seq, .kind = MT_REQUEST_SET}};
	size_t cut = sizeof(file);

	for (char *line; (line = fuzz_line(&text));) {
		if (take_text(line, "name ", file.request.name, sizeof(file.request.name)) ||
		    take_text(line, "value ", file.request.value, sizeof(file.request.value)))
			continue;
		if (strncmp(line, "kind ", 5) == 0)
			file.request.kind = (uint32_t)fuzz_number(line + 5);
		else if (strncmp(line, "level ", 6) == 0)
			file.request.level = (uint32_t)fuzz_number(line + 6);
		else if (strncmp(line, "seq ", 4) == 0)
			file.request.seq = fuzz_number(line + 4);
		else if (strncmp(line, "magic ", 6) == 0)
			file.magic = fuzz_number(line + 6);
		else if (strncmp(line, "version ", 8) == 0)
			file.version = (uint32_t)fuzz_number(line + 8);
		else if (strncmp(line, "cut ", 4) == 0)
			cut = (size_t)fuzz_number(line + 4);
	}
	ring(&file, cut < sizeof(file) ? cut : sizeof(file));
}

/* ---- the policy, under whatever settings these are ---- */

/* Lines of five numbers: ms since the last look, then MB: resident, live, allocated since, dirty.
 */
static void follow_policy(char *text, const struct mt_config *config)
{
	static struct mt_policy policy;
	struct mt_last_sample asked = {.cost_ns = 100000};
	struct mt_snapshot now = {.now_ns = 1000 * MT_NS_PER_S};

	memset(&policy, 0, sizeof(policy));
	mt_policy_start(&policy, 4096, now.now_ns);
	for (char *line; (line = fuzz_line(&text));) {
		unsigned long long ms = 0, resident = 0, live = 0, allocated = 0, dirty = 0;
		struct mt_plan plan;

		if (sscanf(line, "%llu %llu %llu %llu %llu", &ms, &resident, &live, &allocated,
			   &dirty) < 1)
			continue;
		now.now_ns += ms % 100000000 * MT_NS_PER_MS;
		now.rss_bytes = now.anon_bytes = resident % (1 << 24) * MT_MIB;
		now.live_bytes = live % (1 << 24) * MT_MIB;
		now.allocated_bytes += allocated % (1 << 24) * MT_MIB;
		now.faults_count += allocated % (1 << 20);
		now.dirty_bytes = dirty % (1 << 24) * MT_MIB;
		now.system_ns += ms % 1000 * 1000;
		now.usage_known = mt_policy_needs_usage(&policy, &now);
		now.dirty_known = mt_tick_interval_decide(&asked, &policy, &now, config, true) !=
				  MT_SAMPLING_INTERVAL_SKIP;
		if (now.dirty_known)
			mt_tick_interval_note(&asked, &now);
		plan = mt_policy_decide(&policy, &now, config);
		fuzz_expect(plan.next_tick_ns > 0, "%s", "a worker that never sleeps");
		fuzz_expect(!plan.purge || plan.reason < MT_REASON_COUNT, "reason %d",
			    (int)plan.reason);
		if (plan.purge)
			mt_policy_note_purge(&policy, &now, now.dirty_bytes / 2, ms % 100000 * 1000,
					     true);
	}
}

/* ---- one input ---- */

static void take(struct fuzz_part *part, const struct fuzz_parts *all, struct mt_config *config)
{
	const char *program = "python3";

	for (size_t i = 0; i < all->count; i++)
		if (fuzz_is(&all->list[i], "program", NULL))
			program = all->list[i].text;
	if (fuzz_is(part, "env", NULL))
		read_environment(part->text, program, config);
	else if (fuzz_is(part, "request", NULL))
		ring_request(part->text);
	else if (fuzz_is(part, "rawcontrol", NULL))
		ring(part->text, part->bytes);
	else if (fuzz_is(part, "policy", NULL))
		follow_policy(part->text, config);
	else if (fuzz_is(part, "set", NULL))
		for (char *line, *rest = part->text; (line = fuzz_line(&rest));)
			mtctl_set(line);
	else if (fuzz_is(part, "quantity", NULL) || fuzz_is(part, "number", NULL) ||
		 fuzz_is(part, "name", NULL))
		for (char *line, *rest = part->text; (line = fuzz_line(&rest));)
			mtctl_read(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_parts parts;
	struct mt_config config;

	mt_config_defaults(&config);
	mt_config_read(NULL);
	next_seq = 0;
	fuzz_cut(data, bytes, &parts);
	for (size_t i = 0; i < parts.count; i++)
		take(&parts.list[i], &parts, &config);
	if (*control_path)
		drop_control();
	fuzz_drop(&parts);
	return 0;
}
