/* test_nvml.c -- who is who among the processes of a device. */
#include <criterion/criterion.h>

#include "sys/os.h"
#include "gpu/stats.h"
#include "gpu/nvml.h"

static const struct mt_nvml_process three[] = {{.pid = 10, .used_bytes = 100},
					       {.pid = 42, .used_bytes = 7},
					       {.pid = 11, .used_bytes = 30}};

Test(nvml, finds_us_by_our_pid_and_adds_up_the_others)
{
	struct mt_nvml_usage seen = {0};

	mt_nvml_split(three, 3, 42, true, &seen);

	cr_expect(seen.own_known && seen.others_known);
	cr_expect_eq(seen.own_bytes, 7);
	cr_expect_eq(seen.others_bytes, 130);
	cr_expect_eq(seen.others_count, 2);
}

Test(nvml, in_a_namespace_the_pids_are_of_others)
{
	struct mt_nvml_usage seen = {0};

	mt_nvml_split(three, 3, 42, false, &seen);
	cr_expect_not(seen.own_known || seen.others_known);
	cr_expect_eq(seen.others_bytes + seen.own_bytes + seen.others_count, 0);

	mt_nvml_split(three, 1, 42, false, &seen);
	cr_expect(seen.own_known && seen.others_known, "who is alone is we");
	cr_expect_eq(seen.own_bytes, 100);
}

Test(nvml, a_figure_that_is_not_told_is_not_known)
{
	const struct mt_nvml_process list[] = {{.pid = 42, .used_bytes = ~0ull},
					       {.pid = 11, .used_bytes = ~0ull}};
	struct mt_nvml_usage seen = {0};

	mt_nvml_split(list, 2, 42, true, &seen);

	cr_expect_not(seen.own_known);
	cr_expect_eq(seen.others_bytes, 0);
	cr_expect_eq(seen.others_count, 1);
}

Test(nvml, of_a_divided_device_only_our_part_counts)
{
	const struct mt_nvml_process list[] = {
		{.pid = 10, .used_bytes = 100, .gpu_instance = 1},
		{.pid = 42, .used_bytes = 7, .gpu_instance = 2},
		{.pid = 42, .used_bytes = 5, .gpu_instance = 2, .compute_instance = 1},
		{.pid = 11, .used_bytes = 30, .gpu_instance = 2},
	};
	struct mt_nvml_usage seen = {0};

	mt_nvml_split(list, 4, 42, true, &seen);

	cr_expect_eq(seen.own_bytes, 12);
	cr_expect_eq(seen.others_bytes, 30);
	cr_expect_eq(seen.others_count, 1);
}

static uint64_t free_told(uint64_t total_bytes, uint64_t free_bytes, uint64_t nvml_total_bytes,
			  uint64_t nvml_free_bytes)
{
	const struct mt_gpu_device device = {.total_bytes = total_bytes, .free_bytes = free_bytes};
	const struct mt_nvml_usage nvml = {.total_bytes = nvml_total_bytes,
					   .free_bytes = nvml_free_bytes};
	const struct mt_pool_usage pool = {0};
	const struct mt_unpooled_usage others = {0};
	struct mt_stats_device row;

	mt_gpu_stats_fill(&row, &device, &pool, &others, &nvml);
	return row.free_bytes;
}

Test(nvml, what_is_free_of_the_whole_is_not_told_of_a_part)
{
	const uint64_t gib = 1ull << 30;

	cr_expect_eq(free_told(10 * gib, 4 * gib, 80 * gib, 60 * gib), 4 * gib,
		     "the driver's word stands");
	cr_expect_eq(free_told(10 * gib, 0, 80 * gib, 60 * gib), 0,
		     "not known, rather than more than there is");
	cr_expect_eq(free_told(79 * gib, 0, 80 * gib, 60 * gib), 60 * gib);
	cr_expect_eq(free_told(79 * gib, 0, 80 * gib, 80 * gib), 79 * gib);
}

Test(nvml, what_is_not_ours_is_reckoned_of_figures_of_one_age)
{
	const struct mt_gpu_device device = {.total_bytes = 1ull << 30};
	const struct mt_pool_usage later = {.reserved_bytes = 40 * MT_MIB};
	const struct mt_unpooled_usage others = {0};
	struct mt_nvml_usage nvml = {
		.own_known = true, .own_bytes = 22 * MT_MIB, .held_bytes = 2 * MT_MIB};
	struct mt_stats_device row;

	mt_gpu_stats_fill(&row, &device, &later, &others, &nvml);
	cr_expect_eq(row.unattributed_bytes, 20 * MT_MIB, "as when NVML was asked");
	nvml.held_bytes = 30 * MT_MIB;
	mt_gpu_stats_fill(&row, &device, &later, &others, &nvml);
	cr_expect_eq(row.unattributed_bytes, 0);
}
