/* kernel_ctl.c -- see kernel.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/channel/target.h"
#include "ctl/diagnose/diagnose.h"
#include "ctl/diagnose/facts_internal.h"
#include "ctl/process/limit.h"
#include "ctl/process/process.h"
#include "ctl/process/pymalloc.h"
#include "ctl/process/smaps.h"
#include "ctl/profile/profile_internal.h"
#include "ctl/profile/sites.h"
#include "ctl/ui/top/top.h"
#include "kernel.h"

#define PID 42

static void expect_limit(enum mt_err error, const struct mt_limit *limit)
{
	if (error)
		return;
	fuzz_expect(strnlen(limit->source, sizeof(limit->source)) < sizeof(limit->source), "%s",
		    "a source without its end");
	fuzz_expect(limit->limit_bytes, "%s", limit->source);
	fuzz_expect(mt_limit_percent(limit) >= 0, "%g %%", mt_limit_percent(limit));
}

static void look_at_limits(const struct kernel_options *options)
{
	struct mt_limit limit = {0};
	struct mt_top_machine machine;
	char directory[8192];
	uint64_t used;

	expect_limit(mt_limit_find(fuzz_root(), 0, &limit), &limit);
	expect_limit(mt_limit_find(fuzz_root(), PID, &limit), &limit);
	if (mt_limit_find_in(fuzz_root(), options->cgroup, &limit) == MT_ERR_OK && limit.is_cgroup)
		expect_limit(MT_ERR_OK, &limit);
	(void)mt_limit_used_in(fuzz_root(), options->cgroup, &used);
	(void)mt_limit_cgroup_directory(fuzz_root(), PID, directory, sizeof(directory));
	(void)mt_limit_memory_directory(fuzz_root(), PID, directory, sizeof(directory));
	(void)mt_limit_machine_used(fuzz_root());
	mt_top_machine_read(fuzz_root(), &machine);
	fuzz_expect(!machine.has_stalls || (machine.stall_pct >= 0 && machine.stall_pct <= 100),
		    "%g %%", machine.stall_pct);
}

static void expect_process(const struct mt_process *process)
{
	fuzz_expect_text("comm", process->comm, sizeof(process->comm));
	fuzz_expect_text("command", process->command, sizeof(process->command));
}

static void look_at_names(const struct mt_process *process)
{
	static const uint64_t addresses[] = {0, 1, 0x1000, 0x401000, 0x7f0000001000, UINT64_MAX};
	struct mt_symbols *symbols;
	struct mt_error_reason why;

	if (mt_symbols_new(process, &symbols, &why) != MT_ERR_OK)
		return;
	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		char *name = mt_symbols_offset(symbols, addresses[i]);

		fuzz_expect_text("the name of an address", name, MT_SYMBOLS_NAME_BYTES);
		(void)mt_symbols_is_shim(symbols, addresses[i]);
		free(name);
	}
	mt_symbols_free(symbols);
}

static void diagnose(const struct mt_process *process)
{
	struct mt_facts *facts = calloc(1, sizeof(*facts));

	if (!facts)
		abort();
	facts->process = *process;
	mt_diagnose_read_maps(facts);
	for (size_t i = 0; i < facts->foreign_count; i++)
		fuzz_expect_text("another allocator's file", facts->foreign[i].file,
				 sizeof(facts->foreign[i].file));
	facts->limit_known = mt_process_limit_find(process, NULL, &facts->limit) == MT_ERR_OK;
	mt_diagnose_read_group(facts, &facts->group);
	if (facts->group.known)
		fuzz_expect_text("a group", facts->group.directory, sizeof(facts->group.directory));
	(void)mt_diagnose_sample_now(facts, 0);
	(void)mt_diagnose_sample_now(facts, 1.5);
	free(facts);
}

static void compare(const struct mt_smaps *one, const struct mt_smaps *other)
{
	struct mt_smaps_fork fork;

	mt_smaps_compare(one, other, &fork);
	fuzz_expect(fork.is_fork ||
			    (!fork.shared_bytes && !fork.private_bytes && !fork.copied_bytes),
		    "%s", "bytes of no fork");
	for (size_t i = 0; i < one->count; i++) {
		fuzz_expect_text("a mapping's name", one->list[i].name, sizeof(one->list[i].name));
		fuzz_expect(one->list[i].start < one->list[i].end, "mapping %zu", i);
	}
}

static void look_at_process(void)
{
	struct mt_smaps_sizes figures;
	struct mt_smaps smaps;
	struct mt_process process;
	struct mt_error_reason why = {.text = ""};
	char value[64];

	if (mt_process_find(PID, &process, &why) == MT_ERR_OK) {
		expect_process(&process);
		look_at_names(&process);
		diagnose(&process);
		(void)mt_process_is_alive(&process);
		(void)mt_smaps_read_total(&process, &figures, &why);
		if (mt_smaps_read(&process, &smaps, &why) == MT_ERR_OK) {
			compare(&smaps, &smaps);
			mt_smaps_free(&smaps);
		}
	}
	fuzz_expect_text("why a process is not looked at", why.text, sizeof(why.text));
	if (mt_process_environ(PID, "MT_DIR", value, sizeof(value)))
		fuzz_expect(strlen(value) < sizeof(value), "%s", value);
}

static void look_at_all(void)
{
	struct mt_process *list;
	size_t count = mt_process_read_all(&list);

	for (size_t i = 0; i < count; i++) {
		expect_process(&list[i]);
		fuzz_expect(!i || list[i - 1].pid <= list[i].pid, "process %zu", i);
		(void)mt_ancestry_shimmed_parent(list, count, i);
		(void)mt_ancestry_descends(list, count, list[i].pid, PID);
	}
	free(list);
}

static struct mt_smaps before; /* of the input */

void kernel_ctl(const struct kernel_options *options)
{
	look_at_limits(options);
	look_at_process();
	look_at_all();
	mt_smaps_free(&before);
}

void kernel_ctl_text(const struct fuzz_part *part)
{
	struct mt_smaps_sizes figures;
	struct mt_smaps smaps;
	uint64_t live;

	if (fuzz_is(part, "smaps", NULL)) {
		char *copy = strdup(part->text);

		mt_smaps_parse(copy, &smaps);
		free(copy);
		compare(&smaps, &before);
		compare(&before, &smaps);
		mt_smaps_free(&before);
		before = smaps;
	} else if (fuzz_is(part, "rollup", NULL)) {
		(void)mt_smaps_parse_total(part->text, &figures);
	} else if (fuzz_is(part, "pool_header", NULL) && part->bytes >= MT_PYMALLOC_HEADER_BYTES) {
		for (uint64_t pool = 4096; pool <= 16384; pool *= 4)
			if (mt_pymalloc_parse_header((const unsigned char *)part->text, pool,
						     &live))
				fuzz_expect(live < pool, "%llu live bytes in a pool of %llu",
					    (unsigned long long)live, (unsigned long long)pool);
	}
}
