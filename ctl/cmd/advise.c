/* ctl/cmd/advise.c -- `mtctl advise`: looks once, hands the facts to the rules, and tells. */
#include "ctl/diagnose/advise.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/command.h"
#include "ctl/output/json.h"
#include "ctl/cmd/request.h"
#include "ctl/process/target.h"

#define SHORT_S 30.0 /* of so little time little can be told */

static const char help[] = "Settings that would suit the process, each with its reason in figures "
			   "of this very process, from what it has\n"
			   "shown since it woke up: figures, the last 64 cleanups, 15 minutes of "
			   "samples, settings, maps, environment. Often\n"
			   "there is nothing to change. What is the matter with its memory is "
			   "mtctl diagnose's question.\n\n"
			   "  --json  one object\n";

/* ---- for the rules ---- */

const struct mt_stats_snapshot *mt_advise_figures(const struct mt_advise_facts *facts)
{
	return &facts->look.last.head.snapshot;
}

uint64_t mt_advise_setting(const struct mt_advise_facts *facts, const char *name)
{
	const char *text = mt_stats_file_setting(&facts->look.last, name);
	uint64_t value;

	return text && mt_text_parse_u64(text, &value) ? value : 0;
}

bool mt_advise_setting_is(const struct mt_advise_facts *facts, const char *name, const char *word)
{
	const char *text = mt_stats_file_setting(&facts->look.last, name);

	return text && strcmp(text, word) == 0;
}

double mt_advise_seconds(const struct mt_advise_facts *facts)
{
	return (double)mt_advise_figures(facts)->uptime_ms / 1000;
}

uint64_t mt_advise_gate(const struct mt_advise_facts *facts)
{
	uint64_t fixed = mt_advise_setting(facts, "slack_mb") * MT_MIB;
	uint64_t share =
		mt_advise_figures(facts)->rss_bytes / 100 * mt_advise_setting(facts, "slack_pct");

	return fixed > share ? fixed : share;
}

bool mt_advise_may_join(const char *conf)
{
	static const char harmless[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_:,.-";

	return strlen(conf) < sizeof(((struct mt_stats_setting *)0)->value) - 1 &&
	       !conf[strspn(conf, harmless)];
}

void mt_advise_set(const struct mt_advise_facts *facts, struct mt_advice *out, const char *name,
		   const char *value)
{
	size_t used = (size_t)snprintf(out->environment, sizeof(out->environment), "MT_%.40s=%.40s",
				       name, value);

	for (size_t i = 0; i < used && out->environment[i] != '='; i++)
		if (out->environment[i] >= 'a' && out->environment[i] <= 'z')
			out->environment[i] = (char)(out->environment[i] - 'a' + 'A');
	snprintf(out->command, sizeof(out->command), "mtctl set %d %.40s=%.40s",
		 (int)facts->look.process.pid, name, value);
}

/* The first rule on a topic that speaks has it. */
static size_t judge_by(const struct mt_advise_rule *rules, const struct mt_advise_facts *facts,
		       struct mt_advice *out, size_t count)
{
	const char *spoken = "";

	for (; rules->topic && count < MT_ADVICE_MOST; rules++) {
		out[count] = (struct mt_advice){.topic = rules->topic};
		if (strcmp(rules->topic, spoken) == 0 || !rules->is_due(facts, &out[count]))
			continue;
		spoken = rules->topic;
		count++;
	}
	return count;
}

size_t mt_advise_judge(const struct mt_advise_facts *facts, struct mt_advice out[MT_ADVICE_MOST])
{
	size_t count = judge_by(mt_advise_heap_rules, facts, out, 0);

	count = judge_by(mt_advise_round_rules, facts, out, count);
	if (mt_stats_file_uses_cuda(&facts->look.last.head))
		count = judge_by(mt_advise_gpu_rules, facts, out, count);
	return count;
}

/* ---- looking ---- */

static void read_torch(struct mt_advise_facts *facts)
{
	static const char *const names[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
	pid_t pid = facts->look.process.pid;
	char *maps = mt_process_maps(pid);

	facts->has_torch =
		maps && (strstr(maps, "/libc10_cuda.so") || strstr(maps, "/libtorch_cuda.so"));
	free(maps);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !*facts->alloc_conf; i++)
		if (!mt_process_environ(pid, names[i], facts->alloc_conf,
					sizeof(facts->alloc_conf)))
			facts->alloc_conf[0] = '\0';
	mt_text_clean(facts->alloc_conf, sizeof(facts->alloc_conf));
}

static void look(const struct mt_target *target, struct mt_advise_facts *facts)
{
	facts->look.process = target->process;
	facts->look.last = target->file;
	facts->look.awake = true;
	mt_diagnose_read_maps(&facts->look);
	(void)mt_diagnose_look(&facts->look, 0);
	read_torch(facts);
}

/* ---- telling ---- */

static void print_text(const struct mt_advise_facts *facts, const struct mt_advice *list,
		       size_t count)
{
	const struct mt_stats_snapshot *now = mt_advise_figures(facts);

	printf("process %d (%s): RSS %s (at most %s), live %s, idle %s; %s and %s in %.0f s\n",
	       (int)facts->look.process.pid, facts->look.process.comm,
	       mt_text_bytes(now->rss_bytes).text, mt_text_bytes(now->rss_peak_bytes).text,
	       mt_text_bytes(now->heap_live_bytes).text, mt_text_bytes(now->heap_idle_bytes).text,
	       mt_text_counted(now->light_count + now->heavy_count, "cleanup", "cleanups").text,
	       mt_text_counted(now->purge_count, "purge", "purges").text, mt_advise_seconds(facts));
	if (!count)
		puts("\nnothing to change");
	for (size_t i = 0; i < count; i++) {
		printf("\n%s: %s\n", list[i].topic, list[i].reason);
		if (*list[i].command)
			printf("  now          %s\n", list[i].command);
		printf("  at a start   %s\n", list[i].environment);
	}
	if (mt_advise_seconds(facts) < SHORT_S)
		printf("\nit has been awake for %.0f s: ask again when it has done more of its "
		       "work\n",
		       mt_advise_seconds(facts));
}

static void print_json(const struct mt_advise_facts *facts, const struct mt_advice *list,
		       size_t count)
{
	json_t *root = json_object(), *advice = json_array();

	mt_json_set_u64(root, "pid", (uint64_t)facts->look.process.pid);
	mt_json_set_text(root, "comm", facts->look.process.comm);
	mt_json_set(root, "awake_s", json_real(mt_advise_seconds(facts)));
	for (size_t i = 0; i < count; i++) {
		json_t *object = json_object();

		mt_json_set_text(object, "topic", list[i].topic);
		mt_json_set_text(object, "reason", list[i].reason);
		mt_json_set_text(object, "environment", list[i].environment);
		mt_json_set(object, "command",
			    *list[i].command ? json_string(list[i].command) : json_null());
		mt_json_append(advice, object);
	}
	mt_json_set(root, "advice", advice);
	mt_json_print(root, true);
}

static int advise(const char *pid, bool json)
{
	struct mt_advise_facts *facts = mt_error_check_memory(calloc(1, sizeof(*facts)));
	struct mt_target *target = mt_error_check_memory(calloc(1, sizeof(*target)));
	struct mt_advice list[MT_ADVICE_MOST];
	int code = mt_target_find(pid, &target->process);
	size_t count;

	if (code == MT_EXIT_OK) {
		mt_control_file_refresh(&target->process);
		code = mt_target_open(pid, target);
	}
	if (code == MT_EXIT_OK) {
		look(target, facts);
		count = mt_advise_judge(facts, list);
		(json ? print_json : print_text)(facts, list, count);
	}
	free(target);
	free(facts);
	return code;
}

int mt_command_advise(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
	bool json = false;
	int option;

	while ((option = mt_command_option(argc, argv, "h", options)) != -1) {
		if (option == 'h')
			return mt_command_help("advise", help);
		if (option == '?')
			return MT_EXIT_USAGE;
		json |= option == 'j';
	}
	return optind + 1 == argc ? advise(argv[optind], json) : mt_command_misused("advise");
}
