/* ctl/diagnose/rules_kernel.c -- memory outside the heap: shared, copied, of files, of other
 * allocators, in huge pages. */
#include <string.h>

#include "ctl/diagnose/diagnose.h"

#define PART_BYTES   (48 * MT_MIB) /* less is no finding */
#define PART_SHARE   0.30          /* of the memory that it is a part of */
#define GROUP_FULL   0.60          /* of the group's limit is used */
#define FILE_SHARE   0.50          /* of that, by files */
#define HUGE_SHARE   0.50          /* of the anonymous memory, in huge pages */
#define COPIED_SHARE 0.25          /* of what the tree holds */

static bool is_part(uint64_t bytes, uint64_t whole)
{
	return bytes >= PART_BYTES && (double)bytes >= (double)whole * PART_SHARE;
}

bool mt_diagnose_shmem_is_fixed(const struct mt_facts *facts)
{
	return mt_facts_last(facts)->shmem_bytes <= facts->shared_fixed_bytes;
}

/* The kernel counts page-locked memory of CUDA as shared memory. */
void mt_rule_shm(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_sample *last = mt_facts_last(facts);
	uint64_t bytes =
		mt_sat_sub(mt_diagnose_minimum(facts, 2, offsetof(struct mt_sample, shmem_bytes)),
			   last->gpu_pinned_bytes);
	bool grows = out->shmem.shape == MT_TREND_GROWS;
	struct mt_finding *finding;

	if ((!is_part(bytes, last->rss_bytes) && !grows) || mt_diagnose_shmem_is_fixed(facts))
		return;
	if (grows)
		finding = mt_finding_add(
			out, MT_VERDICT_SHM, out->shmem.slope * MT_DIAGNOSE_HORIZON_S,
			out->shmem.confidence * 0.9, "shared memory (/dev/shm, memfd) grows by %s",
			mt_diagnose_rate(out->shmem.slope).text);
	else
		finding = mt_finding_add(out, MT_VERDICT_SHM, (double)bytes, 0.85,
					 "%s of its %s are shared memory (/dev/shm, memfd)",
					 mt_text_bytes(bytes).text,
					 mt_text_bytes(last->rss_bytes).text);
	finding->growth_per_s = grows ? out->shmem.slope : 0;
	mt_finding_bytes(finding, "resident shared memory", "rss_shmem_bytes", last->shmem_bytes);
	mt_finding_bytes(finding, "RSS", "rss_bytes", last->rss_bytes);
	if (facts->awake)
		mt_finding_bytes(finding, "live heap", "heap_live_bytes", last->live_bytes);
	if (grows)
		mt_finding_trend(finding, "shared memory", "shmem", &out->shmem);
	mt_finding_advise(finding,
			  "Unlink what is done with: ls -l /dev/shm; SharedMemory.close() and "
			  ".unlink(); lsof +L1 -p PID.");
	mt_finding_advise(finding, "With DataLoader: fewer workers or a smaller prefetch_factor; "
				   "queues that are drained.");
}

static uint64_t group_file_bytes(const struct mt_diagnose_group *group)
{
	return group->is_v1 ? group->file_bytes : mt_sat_sub(group->file_bytes, group->shmem_bytes);
}

/* The kernel reclaims file pages before it refuses an allocation or kills a process. */
void mt_rule_file_cache(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_diagnose_group *group = &facts->group;
	uint64_t files = group_file_bytes(group);
	double used =
		group->limit_bytes ? (double)group->usage_bytes / (double)group->limit_bytes : 0;
	struct mt_finding *finding;

	if (!group->known || used < GROUP_FULL ||
	    (double)files < (double)group->usage_bytes * FILE_SHARE || files < PART_BYTES)
		return;
	finding = mt_finding_add(out, MT_VERDICT_FILE_CACHE, (double)files, 0.8,
				 "%s of the %s that count against the container are file pages: "
				 "the kernel drops them first",
				 mt_text_bytes(files).text, mt_text_bytes(group->usage_bytes).text);
	mt_finding_show(finding, "used of the limit",
			group->is_v1 ? "usage_in_bytes" : "memory_current_bytes",
			(double)group->usage_bytes, "%s of %s (%.0f %%)",
			mt_text_bytes(group->usage_bytes).text,
			mt_text_bytes(group->limit_bytes).text, used * 100);
	mt_finding_bytes(finding, group->is_v1 ? "total_cache less total_shmem" : "file less shmem",
			 "group_file_bytes", files);
	mt_finding_bytes(finding, group->is_v1 ? "total_inactive_file" : "inactive_file",
			 "group_inactive_file_bytes", group->inactive_file_bytes);
	mt_finding_bytes(finding, group->is_v1 ? "total_active_file" : "active_file",
			 "group_active_file_bytes", group->active_file_bytes);
	mt_finding_bytes(finding, group->is_v1 ? "total_rss" : "anon", "group_anon_bytes",
			 group->anon_bytes);
	mt_finding_show(finding, "group", "group_version", group->is_v1 ? 1 : 2, "%.180s",
			group->directory);
	mt_finding_advise(finding,
			  "Nothing to fear: judge the container by its anonymous memory, %s, not "
			  "by its usage.",
			  mt_text_bytes(group->anon_bytes).text);
	mt_finding_advise(
		finding,
		"If alarms ring on usage, let them subtract inactive_file; "
		"posix_fadvise(POSIX_FADV_DONTNEED) drops pages of files that are done with.");
}

/* Mapped file pages. The kernel can reclaim them, but they are resident while they are used. */
void mt_rule_file_growth(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_sample *last = mt_facts_last(facts);
	struct mt_finding *finding;

	if (out->file.shape != MT_TREND_GROWS || out->rss.shape != MT_TREND_GROWS)
		return;
	finding = mt_finding_add(
		out, MT_VERDICT_FILE_CACHE, out->file.slope * MT_DIAGNOSE_HORIZON_S,
		out->file.confidence * 0.8,
		"pages of mapped files grow by %s: the kernel drops them when memory is short",
		mt_diagnose_rate(out->file.slope).text);
	finding->growth_per_s = out->file.slope;
	mt_finding_trend(finding, "mapped file pages", "file", &out->file);
	mt_finding_bytes(finding, "of RSS", "rss_file_bytes", last->file_bytes);
	mt_finding_advise(finding, "Nothing to fear: they are clean copies of files; "
				   "madvise(MADV_DONTNEED) drops those that are done with.");
}

void mt_diagnose_advise_ways_back(const struct mt_facts *facts, struct mt_finding *finding)
{
	for (size_t i = 0; i < facts->foreign_count; i++)
		if (facts->foreign[i].way_back)
			mt_finding_advise(finding, "%s: %s.", facts->foreign[i].name,
					  facts->foreign[i].way_back);
}

void mt_rule_private_allocator(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_sample *last = mt_facts_last(facts);
	uint64_t bytes = mt_diagnose_minimum(facts, 2, offsetof(struct mt_sample, outside_bytes));
	bool grows = out->outside.shape == MT_TREND_GROWS, is_managed = true;
	struct mt_finding *finding;

	bytes = mt_sat_sub(bytes, last->gpu_pinned_bytes);
	for (size_t i = 0; i < facts->foreign_count; i++)
		is_managed &= facts->foreign[i].is_managed;
	if (!facts->foreign_count || (!grows && (is_managed || !is_part(bytes, last->anon_bytes))))
		return;
	finding = mt_finding_add(out, MT_VERDICT_PRIVATE,
				 grows ? out->outside.slope * MT_DIAGNOSE_HORIZON_S : (double)bytes,
				 grows ? out->outside.confidence * 0.7 : 0.7,
				 "%s lie outside of the heap, and %s is in the process",
				 mt_text_bytes(bytes).text, facts->foreign[0].name);
	finding->growth_per_s = grows ? out->outside.slope : 0;
	mt_finding_bytes(finding, "anonymous, outside of the heap", "outside_bytes", bytes);
	if (grows)
		mt_finding_trend(finding, "outside of the heap", "outside", &out->outside);
	mt_finding_bytes(finding, "anonymous memory in all", "anon_bytes", last->anon_bytes);
	if (mt_diagnose_knows_live(facts))
		mt_finding_bytes(finding, "live heap", "heap_live_bytes", last->live_bytes);
	for (size_t i = 0; i < facts->foreign_count; i++)
		mt_finding_show(finding, i ? "" : "allocators beside malloc",
				"foreign_allocators_count", (double)facts->foreign_count, "%s (%s)",
				facts->foreign[i].name, facts->foreign[i].file);
	mt_diagnose_advise_ways_back(facts, finding);
	mt_finding_advise(finding, "Point it to malloc, if it can: its own switch, or a build "
				   "without an allocator of its own.");
}

/* One used word keeps 2 MB resident in a huge page. Live heap bytes, and bytes that another finding
 * explains, do not count. */
void mt_rule_huge_pages(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_sample *last = mt_facts_last(facts);
	uint64_t unnamed =
		mt_diagnose_minimum(facts, 2, offsetof(struct mt_sample, outside_bytes)) +
		mt_diagnose_minimum(facts, 2, offsetof(struct mt_sample, slack_bytes));
	uint64_t huge = facts->smaps_known ? facts->smaps.huge_bytes : 0, bytes;
	uint64_t refilled =
		facts->awake ? facts->last.head.cleanups_by_reason[MT_REASON_HUGE_PAGES] : 0;
	struct mt_finding *finding;

	if (facts->trim.done)
		unnamed = mt_sat_sub(unnamed, mt_sat_sub(facts->trim.record.anon_before_bytes,
							 facts->trim.record.anon_after_bytes));
	unnamed = mt_sat_sub(unnamed, last->gpu_pinned_bytes);
	bytes = unnamed < huge ? unnamed : huge;
	if (!is_part(bytes, last->anon_bytes) ||
	    (double)huge < (double)last->anon_bytes * HUGE_SHARE)
		return;
	finding = mt_finding_add(out, MT_VERDICT_HUGE_PAGES, (double)bytes, 0.6,
				 "%s are resident in transparent huge pages, of which nobody knows "
				 "that they are used",
				 mt_text_bytes(bytes).text);
	mt_finding_bytes(finding, "AnonHugePages", "huge_bytes", huge);
	mt_finding_bytes(finding, "anonymous memory in all", "anon_bytes", last->anon_bytes);
	mt_finding_bytes(finding, "live heap", "heap_live_bytes", last->live_bytes);
	mt_finding_bytes(finding, "neither live nor returned by a trim", "unnamed_bytes", unnamed);
	if (refilled)
		mt_finding_show(finding, "purged again, since the kernel had filled it",
				"huge_pages_cleanups_count", (double)refilled, "%s",
				mt_text_counted(refilled, "time", "times").text);
	mt_finding_advise(finding, "Restart it without: %s.",
			  facts->huge_pages_on_request
				  ? "NUMPY_MADVISE_HUGEPAGE=0, THP_MEM_ALLOC_ENABLE=0 (PyTorch), "
				    "GLIBC_TUNABLES=glibc.malloc.hugetlb=0"
				  : "MT_MALLOC_CONF=thp:never, or transparent_hugepage/enabled "
				    "set to madvise");
	mt_finding_advise(finding, "Where it asks for them itself (MADV_HUGEPAGE), ask only for "
				   "what is filled densely.");
}

void mt_rule_copies(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_process_tree_sums *sums = &facts->tree.last;
	uint64_t copied = sums->copied_bytes,
		 grown = mt_sat_sub(copied, facts->tree.first.copied_bytes);
	struct mt_finding *finding;

	if (!facts->tree.known || copied < PART_BYTES ||
	    (double)copied < (double)sums->pss_bytes * COPIED_SHARE)
		return;
	finding = mt_finding_add(
		out, MT_VERDICT_COPY_ON_WRITE, (double)copied, 0.8,
		"%s are copies that %s made of the parent's memory", mt_text_bytes(copied).text,
		mt_text_counted(facts->tree.forks_count, "forked worker has", "forked workers have")
			.text);
	mt_finding_bytes(finding, "copied", "copied_bytes", copied);
	mt_finding_bytes(finding, "of that, during the diagnosis", "copied_grown_bytes", grown);
	mt_finding_bytes(finding, "still shared", "shared_bytes", sums->shared_bytes);
	mt_finding_bytes(finding, "all of them together (PSS)", "pss_bytes", sums->pss_bytes);
	mt_finding_bytes(finding, "all of them by RSS (counted twice)", "family_rss_bytes",
			 sums->rss_bytes);
	mt_finding_advise(finding, "Keep what workers read in arrays (numpy, Arrow, torch), not in "
				   "Python objects: each use of one writes its reference count.");
	mt_finding_advise(finding, "Call gc.freeze() before the fork; fork early, before the data "
				   "is loaded, or put it in shared memory.");
	mt_finding_advise(finding, "Take fewer workers: each of them pays for its own copy.");
}
