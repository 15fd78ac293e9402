/* tests/ctl/test_diagnose_places.c -- facts in, verdict out: devices, shared and copied memory,
 * files, other allocators, huge pages; the headers of Python's pools. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diagnose_case.h"
#include "ctl/diagnose/facts_internal.h"

static struct mt_diagnosis diagnosis;
static struct mt_facts *facts;

static void forget(void)
{
	free(facts);
	facts = NULL;
}

static void begin(void)
{
	const struct series live = {SHAPE_FLAT, 100 * MB, 0, 0, 0};

	facts = case_facts(&live, 60, 120);
}

TestSuite(places, .init = begin, .fini = forget);

static enum mt_verdict judge(void)
{
	case_fill_other(facts);
	mt_diagnose_decide(facts, &diagnosis);
	return diagnosis.list[0].verdict;
}

#define EACH(figure, value)                                                                        \
	for (size_t at = 0; at < facts->samples_count; at++)                                       \
	facts->samples[at].figure = (uint64_t)(value)

/* ---- devices ---- */

static void use_cuda(double reserved, double allocated)
{
	strcpy(facts->last.head.cuda, "pool");
	facts->last.head.driver_version = 12080;
	facts->last.head.time_ns = 1000;
	facts->last.head.snapshot.gpu_total_bytes = (uint64_t)(1000 * MB);
	EACH(gpu_reserved_bytes, reserved);
	EACH(gpu_allocated_bytes, allocated);
	EACH(gpu_idle_bytes, reserved - allocated);
}

static void heavy(double before, double after, double later)
{
	case_trim(facts, 0, 0, 0);
	facts->trim.level = MT_LEVEL_HEAVY;
	facts->trim.record.gpu_before_bytes = (uint64_t)before;
	facts->trim.record.gpu_after_bytes = (uint64_t)after;
	facts->trim.gpu_later_bytes = (uint64_t)later;
}

static void add_oom(uint64_t allocated_bytes, uint64_t unused_bytes)
{
	facts->last.head.ooms_count = 1;
	facts->last.ooms[0] = (struct mt_stats_oom){.number = 1,
						    .time_ns = 900,
						    .asked_bytes = 60 << 20,
						    .total_bytes = 2000 << 20,
						    .allocated_bytes = allocated_bytes,
						    .framework_idle_bytes = unused_bytes};
}

Test(places, memory_reserved_far_over_what_is_allocated_is_a_cache)
{
	use_cuda(600 * MB, 60 * MB);
	cr_expect_eq(judge(), MT_VERDICT_GPU_CACHE);
}

static bool advises(const char *text)
{
	for (size_t i = 0; i < diagnosis.list[0].advice_count; i++)
		if (strstr(diagnosis.list[0].advice[i], text))
			return true;
	return false;
}

Test(places, memory_that_the_pool_is_about_to_return_is_no_cache)
{
	struct mt_stats_setting *decay = &facts->last.settings[facts->last.head.settings_count++];

	strcpy(decay->name, "cuda_decay_ms");
	strcpy(decay->value, "0");
	use_cuda(600 * MB, 60 * MB);
	cr_expect_eq(judge(), MT_VERDICT_GPU_CACHE);
	cr_expect(advises("cuda_decay_ms=5000"));

	strcpy(decay->value, "5000");
	cr_expect_eq(judge(), MT_VERDICT_HEALTHY);
}

Test(places, a_step_that_takes_its_memory_again_is_no_cache)
{
	use_cuda(385 * MB, 300 * MB);
	cr_expect_eq(judge(), MT_VERDICT_HEALTHY);
	/* What PyTorch keeps for its next step looks allocated; it is back soon after a heavy
	 * cleanup. */
	EACH(gpu_idle_bytes, 0);
	heavy(600 * MB, 200 * MB, 590 * MB);
	cr_expect_eq(judge(), MT_VERDICT_HEALTHY, "%s", diagnosis.list[0].text);
	heavy(600 * MB, 200 * MB, 200 * MB);
	cr_expect_eq(judge(), MT_VERDICT_GPU_CACHE);
}

Test(places, a_refusal_while_pieces_lie_free_is_fragmentation)
{
	use_cuda(380 * MB, 380 * MB);
	EACH(gpu_reserved_bytes, 960 * MB);
	EACH(gpu_allocated_bytes, 960 * MB);
	add_oom(500 << 20, 1240 << 20);
	cr_expect_eq(judge(), MT_VERDICT_GPU_FRAGMENTS, "%s", diagnosis.list[0].text);
	add_oom(1960 << 20, 0);
	cr_expect_eq(judge(), MT_VERDICT_GPU_LIVE);
}

Test(places, tensors_that_grow_are_live_ones)
{
	use_cuda(300 * MB, 300 * MB);
	for (size_t i = 0; i < facts->samples_count; i++) {
		facts->samples[i].gpu_allocated_bytes +=
			(uint64_t)(facts->samples[i].at_s * 10 * MB);
		facts->samples[i].gpu_reserved_bytes = facts->samples[i].gpu_allocated_bytes;
	}
	cr_expect_eq(judge(), MT_VERDICT_GPU_LIVE);
}

Test(places, page_locked_memory_is_named_and_is_not_shared_memory)
{
	use_cuda(10 * MB, 10 * MB);
	case_add(facts, gpu_pinned_bytes, 160 * MB);
	for (size_t i = 0; i < facts->samples_count; i++) {
		facts->samples[i].anon_bytes -= 160 << 20;
		facts->samples[i].shmem_bytes += 160 << 20;
	}
	cr_expect_eq(judge(), MT_VERDICT_PINNED);
	cr_expect_eq(diagnosis.count, 1);
}

/* ---- the kernel's ---- */

Test(places, resident_shared_memory_is_named)
{
	EACH(shmem_bytes, 160 * MB);
	EACH(rss_bytes, 280 * MB);
	cr_expect_eq(judge(), MT_VERDICT_SHM);
}

/* PostgreSQL's buffers: mapped once, and resident as they are used. */
Test(places, shared_memory_of_a_fixed_size_is_no_finding_while_it_fills)
{
	for (size_t i = 0; i < facts->samples_count; i++) {
		facts->samples[i].shmem_bytes = (uint64_t)(facts->samples[i].at_s * MB);
		facts->samples[i].rss_bytes += facts->samples[i].shmem_bytes;
	}
	cr_expect_eq(judge(), MT_VERDICT_SHM);
	facts->shared_fixed_bytes = 140 << 20;
	cr_expect(judge() == MT_VERDICT_HEALTHY || judge() == MT_VERDICT_UNKNOWN, "%s",
		  diagnosis.list[0].text);
}

Test(places, files_that_fill_a_container_are_named_as_file_cache)
{
	static const struct {
		double limit_mb, usage_mb, file_mb, anon_mb;
		enum mt_verdict verdict;
	} rows[] = {
		{250, 190, 150, 30, MT_VERDICT_FILE_CACHE},
		{250, 245, 200, 30, MT_VERDICT_FILE_CACHE},
		{250, 240, 40, 190, MT_VERDICT_HEALTHY},
		{0, 1000, 900, 90, MT_VERDICT_HEALTHY},
		{2500, 300, 250, 30, MT_VERDICT_HEALTHY},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int v1 = 0; v1 < 2; v1++) {
			facts->group = (struct mt_diagnose_group){
				.known = true,
				.is_v1 = v1,
				.limit_bytes = (uint64_t)(rows[i].limit_mb * MB),
				.usage_bytes = (uint64_t)(rows[i].usage_mb * MB),
				.file_bytes = (uint64_t)(rows[i].file_mb * MB),
				.anon_bytes = (uint64_t)(rows[i].anon_mb * MB)};
			cr_expect_eq(judge(), rows[i].verdict, "row %zu, version %d: %s", i, 2 - v1,
				     diagnosis.list[0].text);
		}
	}
}

Test(places, memory_outside_of_the_heap_is_another_allocators_where_there_is_one)
{
	case_add(facts, outside_bytes, 160 * MB);
	cr_expect_eq(judge(), MT_VERDICT_HEALTHY, "stacks and mapped buffers are no disease");
	facts->foreign_count = 1;
	strcpy(facts->foreign[0].name, "mimalloc");
	facts->foreign[0].way_back = "MIMALLOC_PURGE_DELAY=0";
	cr_expect_eq(judge(), MT_VERDICT_PRIVATE);
	cr_expect_str_eq(diagnosis.list[0].advice[0], "mimalloc: MIMALLOC_PURGE_DELAY=0.");
}

Test(places, each_allocator_beside_malloc_is_known_by_its_file_and_has_its_way_back)
{
	static const struct {
		const char *path, *name, *way_back;
	} rows[] = {
		{"/v/_duckdb.cpython-311-x86_64-linux-gnu.so", "DuckDB's jemalloc",
		 "SET allocator_background_threads=true"},
		{"/v/duckdb/duckdb.cpython-310-x86_64-linux-gnu.so", "DuckDB's jemalloc",
		 "SET allocator_background_threads=true"},
		{"/usr/lib/libduckdb.so", "DuckDB's jemalloc",
		 "SET allocator_background_threads=true"},
		{"/v/pyarrow/libarrow.so.2600", "pyarrow's own pool", "release_unused()"},
		{"/v/_polars_runtime_32/_polars_runtime.abi3.so", "polars' jemalloc",
		 "_RJEM_MALLOC_CONF"},
		{"/usr/lib/libmimalloc.so.2", "mimalloc", "MIMALLOC_PURGE_DELAY=0"},
		{"/usr/bin/node", "V8's heap", NULL},
		{"/usr/bin/nodejs-something", NULL, NULL},
		{"/usr/lib/libc.so.6", NULL, NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct mt_diagnose_carrier *seen = mt_diagnose_carrier(rows[i].path);

		cr_assert_eq(seen != NULL, rows[i].name != NULL, "%s", rows[i].path);
		if (!seen)
			continue;
		cr_expect_str_eq(seen->name, rows[i].name);
		cr_expect_eq(seen->way_back != NULL, rows[i].way_back != NULL);
		if (seen->way_back && rows[i].way_back)
			cr_expect(strstr(seen->way_back, rows[i].way_back) != NULL);
	}
}

Test(places, huge_pages_that_are_not_used_are_named)
{
	case_add(facts, outside_bytes, 200 * MB);
	facts->smaps_known = true;
	facts->smaps.huge_bytes = 200 << 20;
	cr_expect_eq(judge(), MT_VERDICT_HUGE_PAGES);
	facts->smaps.huge_bytes = 40 << 20;
	cr_expect_eq(judge(), MT_VERDICT_HEALTHY);
}

Test(places, a_heap_in_huge_pages_is_healthy)
{
	facts->smaps_known = true;
	facts->smaps.huge_bytes = 100 << 20;
	cr_expect_eq(judge(), MT_VERDICT_HEALTHY);
}

Test(places, copies_of_workers_are_named_and_their_own_memory_is_not)
{
	facts->tree.known = true;
	facts->tree.count = 4;
	facts->tree.forks_count = 3;
	facts->tree.last = (struct mt_process_tree_sums){
		.pss_bytes = 250 << 20, .private_bytes = 200 << 20, .copied_bytes = 180 << 20};
	cr_expect_eq(judge(), MT_VERDICT_COPY_ON_WRITE);
	facts->tree.last.copied_bytes = 30 << 20;
	cr_expect_eq(judge(), MT_VERDICT_HEALTHY);
}

/* ---- Python's pools ---- */

static void make_pool(unsigned char *header, uint32_t count, uint32_t class, uint32_t pool_bytes)
{
	const uint32_t words[] = {class, 48 + 10 * (class + 1) * 16, pool_bytes - (class + 1) * 16};

	memset(header, 0, MT_PYMALLOC_HEADER_BYTES);
	memcpy(header, &count, sizeof(count));
	memcpy(header + 36, words, sizeof(words));
}

Test(places, the_live_objects_of_a_pool_are_read_from_its_header)
{
	unsigned char header[MT_PYMALLOC_HEADER_BYTES];
	uint64_t live = 0;

	make_pool(header, 100, 3, 16384);
	cr_expect(mt_pymalloc_parse_header(header, 16384, &live));
	cr_expect_eq(live, 6400);
	cr_expect_not(mt_pymalloc_parse_header(header, 4096, &live), "a pool of another size");
	make_pool(header, 1000, 3, 16384);
	cr_expect_not(mt_pymalloc_parse_header(header, 16384, &live),
		      "more blocks than it has room for");
	make_pool(header, 1, 32, 16384);
	cr_expect_not(mt_pymalloc_parse_header(header, 16384, &live), "no such class");
	memset(header, 0, sizeof(header));
	cr_expect_not(mt_pymalloc_parse_header(header, 16384, &live), "an untouched page");
	memset(header, 0x78, sizeof(header));
	cr_expect_not(mt_pymalloc_parse_header(header, 16384, &live), "anything");
}

static void put_number(const char *directory, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	cr_assert(fputs(text, file) >= 0);
	cr_assert_eq(fclose(file), 0);
}

/* Who has a part of the hierarchy delegated names the groups there; root looks at them, and JSON is
 * UTF-8. */
Test(places, the_name_of_a_group_cannot_steer_the_terminal)
{
	char folder[] = "/tmp/mtshim-group-XXXXXX", directory[128], command[160];

	cr_assert_not_null(mkdtemp(folder));
	snprintf(directory, sizeof(directory), "%s/\033[2J\xff", folder);
	cr_assert_eq(mkdir(directory, 0700), 0);
	put_number(directory, "memory.current", "1048576\n");
	put_number(directory, "memory.max", "2097152\n");
	facts->awake = false;
	facts->process.pid = getpid();
	facts->limit_known = true;
	facts->limit = (struct mt_limit){.limit_bytes = 2097152, .is_cgroup = true};
	snprintf(facts->limit.source, sizeof(facts->limit.source), "%s/memory.max", directory);
	mt_diagnose_read_group(facts, &facts->group);
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	cr_assert_eq(system(command), 0);

	cr_assert(facts->group.known);
	cr_expect_eq(facts->group.usage_bytes, 1048576);
	cr_expect_str_eq(facts->group.directory + strlen(folder), "/?[2J?");
}
