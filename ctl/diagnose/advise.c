/* ctl/diagnose/advise.c -- reads the facts, runs the rules, and has what the rules share. See
 * advise.h. */
#include "ctl/diagnose/advise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct mt_stats_snapshot *mt_advise_figures(const struct mt_advise_facts *facts)
{
	return &facts->look.last.head.snapshot;
}

uint64_t mt_advise_setting(const struct mt_advise_facts *facts, const char *name)
{
	return mt_stats_file_number(&facts->look.last, name);
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

void mt_advise_read(const struct mt_target *target, struct mt_advise_facts *facts)
{
	facts->look.process = target->process;
	facts->look.last = target->file;
	facts->look.awake = true;
	mt_diagnose_read_maps(&facts->look);
	(void)mt_diagnose_look(&facts->look, 0);
	read_torch(facts);
}
