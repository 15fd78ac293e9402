/* ctl/cmd/parts.h -- what another file uses of a command's: record the options of run, the fuzzer
 * the text of stat and snapshot. For one thread. */
#ifndef MT_CTL_CMD_PARTS_H
#define MT_CTL_CMD_PARTS_H

#include "ctl/channel/pool_snapshot.h"
#include "ctl/command.h"
#include "ctl/diagnose/diagnose.h"

/* Settings as options of a command that starts a program: --gc-rounds=5 sets MT_GC_ROUNDS=5 in the
 * environment, where the shim reads it. Returns the own options of the command, whose list ends
 * with a zero, and one for each setting. The caller frees. */
struct mt_option *mt_setting_option_list(const struct mt_option *own);

struct mt_stat_view {
	bool json, all, records, samples, watch, cached, oom;
	uint64_t every_ms;
	const struct mt_facts *facts;     /* what one look shows; NULL: not looked */
	const struct mt_diagnosis *found; /* in the facts */
};

void mt_stat_print_text(const struct mt_target *target, const struct mt_stat_view *view);

/* --oom: prints the last out-of-memory reports of devices and of MT_RSS_LIMIT_MB in full, the
 * newest last. */
void mt_stat_print_oom_text(const struct mt_target *target);

/* Prints the sums of each device and the blocks that `view` asks for, to stdout. */
void mt_snapshot_print(const struct mt_pool_snapshot *snapshot,
		       const struct mt_pool_snapshot_view *view);

#endif
