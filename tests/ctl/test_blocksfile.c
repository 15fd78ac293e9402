/* test_blocksfile.c -- ctl/blocksfile and ctl/snapshot_sum: blocks of a GPU pool read from a file
 * that may be anything, and counted. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ctl/channel/pool_snapshot.h"
#include "core/stats_layout.h"

#define MB    (1024ull * 1024)
#define COUNT 64u

static struct image {
	struct mt_blocks_head head;
	struct mt_blocks_entry entries[COUNT];
} good;
static struct mt_blocks_file file;
static struct mt_error_reason why;

static void seal(struct image *image)
{
	image->head.entries_sum =
		mt_stats_checksum(MT_CHECKSUM_START, image->entries, sizeof(image->entries));
	image->head.checksum = mt_stats_checksum(MT_CHECKSUM_START, &image->head,
						 offsetof(struct mt_blocks_head, checksum));
}

static void make_good(void)
{
	good.head = (struct mt_blocks_head){
		.magic = MT_BLOCKS_MAGIC,
		.version = MT_BLOCKS_VERSION,
		.head_bytes = sizeof(struct mt_blocks_head),
		.entry_bytes = sizeof(struct mt_blocks_entry),
		.entries_count = COUNT,
		.decay_ms = 30000,
	};
	for (unsigned i = 0; i < COUNT; i++)
		good.entries[i] = (struct mt_blocks_entry){
			.base = 0x10000 * (uint64_t)(COUNT - i),
			.held_bytes = (uint64_t)512 << i % 20,
			.asked_bytes = 500,
			.age_ms = i * 1000,
			.device = (uint8_t)(i % 2),
			.context = (uint16_t)(i % 3),
			.state = (uint8_t)(i % MT_BLOCKS_STATES),
		};
	seal(&good);
}

static enum mt_err read_bytes(const void *bytes, size_t count)
{
	int fd = memfd_create("blocks", MFD_CLOEXEC);
	enum mt_err error;

	cr_assert(fd >= 0);
	cr_assert_eq(write(fd, bytes, count), (ssize_t)count);
	error = mt_blocks_file_read(fd, &file, &why);
	close(fd);
	return error;
}

static enum mt_err read_good(void)
{
	return read_bytes(&good, sizeof(good));
}

TestSuite(blocksfile, .init = make_good);

Test(blocksfile, a_good_one_comes_back_by_device_and_address)
{
	cr_assert_eq(read_good(), MT_ERR_OK, "%s", why.text);
	cr_assert_eq(file.count, COUNT);
	for (size_t i = 1; i < file.count; i++) {
		const struct mt_blocks_entry *one = &file.entries[i - 1], *next = &file.entries[i];

		cr_expect(one->device < next->device ||
			  (one->device == next->device && one->base < next->base));
	}
	mt_blocks_file_free(&file);
}

Test(blocksfile, of_two_at_one_address_the_later_one_stays)
{
	good.entries[10] = good.entries[20];
	good.entries[10].state = MT_BLOCKS_IDLE;
	good.entries[20].state = MT_BLOCKS_LIVE;
	seal(&good);
	cr_assert_eq(read_good(), MT_ERR_OK);
	cr_expect_eq(file.count, COUNT - 1);
	for (size_t i = 0; i < file.count; i++)
		if (file.entries[i].base == good.entries[20].base)
			cr_expect_eq(file.entries[i].state, MT_BLOCKS_LIVE);
	mt_blocks_file_free(&file);
}

Test(blocksfile, every_cut_and_every_longer_one_is_refused)
{
	char longer[sizeof(good) + 1] = {0};

	for (size_t bytes = 0; bytes < sizeof(good);
	     bytes += bytes < sizeof(good.head) + 64 ? 1 : 37)
		cr_expect_eq(read_bytes(&good, bytes), MT_ERR_INVALID, "%zu bytes", bytes);
	memcpy(longer, &good, sizeof(good));
	cr_expect_eq(read_bytes(longer, sizeof(longer)), MT_ERR_INVALID);
}

Test(blocksfile, every_byte_that_is_changed_is_found)
{
	for (size_t at = 0; at < sizeof(good); at += at < sizeof(good.head) ? 1 : 13) {
		((unsigned char *)&good)[at] ^= 0x40;
		cr_expect_eq(read_good(), MT_ERR_INVALID, "byte %zu", at);
		((unsigned char *)&good)[at] ^= 0x40;
	}
	cr_expect_eq(read_good(), MT_ERR_OK);
	mt_blocks_file_free(&file);
}

/* Whoever writes the checksums as well: refused, or something that can be counted. */
Test(blocksfile, forged_ones_are_refused_or_harmless)
{
	struct mt_pool_snapshot_sums sums;
	unsigned taken = 0;

	srand(7);
	for (int round = 0; round < 20000; round++) {
		struct image forged = good;

		for (int i = rand() % 4; i >= 0; i--)
			((unsigned char *)&forged)[(size_t)rand() % sizeof(forged)] =
				(unsigned char)rand();
		seal(&forged);
		if (read_bytes(&forged, sizeof(forged)) != MT_ERR_OK)
			continue;
		taken++;
		mt_pool_snapshot_sum(&file, MT_POOL_SNAPSHOT_ALL, &sums);
		cr_assert_leq(sums.count, COUNT);
		for (unsigned state = 0; state < MT_BLOCKS_STATES; state++)
			cr_assert_leq(sums.states[state].asked_bytes, sums.states[state].bytes);
		mt_blocks_file_free(&file);
	}
	cr_expect_gt(taken, 0);
}

Test(blocksfile, counts_that_lie_are_refused)
{
	static const uint32_t counts[] = {COUNT - 1, COUNT + 1, MT_BLOCKS_MAX, MT_BLOCKS_MAX + 1,
					  UINT32_MAX};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		good.head.entries_count = counts[i];
		seal(&good);
		cr_expect_eq(read_good(), MT_ERR_INVALID, "%u", counts[i]);
	}
}

Test(blocksfile, another_version_is_named)
{
	char text[40];

	good.head.version = MT_BLOCKS_VERSION + 1;
	(void)snprintf(text, sizeof(text), "another version (%u)", good.head.version);
	seal(&good);
	cr_expect_eq(read_good(), MT_ERR_INVALID);
	cr_expect_not_null(strstr(why.text, text));
}

Test(blocksfile, a_million_of_the_largest_still_have_a_sum)
{
	size_t count = MT_BLOCKS_MAX;
	struct mt_pool_snapshot_sums sums;

	file.entries = calloc(count, sizeof(*file.entries));
	file.count = count;
	for (size_t i = 0; i < count; i++)
		file.entries[i] = (struct mt_blocks_entry){.base = i + 1,
							   .held_bytes = MT_BLOCKS_FILE_BYTES_MAX};
	mt_pool_snapshot_sum(&file, MT_POOL_SNAPSHOT_ALL, &sums);
	cr_expect_eq(sums.states[MT_BLOCKS_LIVE].bytes, MT_BLOCKS_FILE_BYTES_MAX * count);
	cr_expect_eq(sums.states[MT_BLOCKS_LIVE].bytes / count, MT_BLOCKS_FILE_BYTES_MAX,
		     "no overflow");
	cr_expect_eq(sums.sizes[MT_POOL_SNAPSHOT_SIZES - 1][MT_BLOCKS_LIVE].count, count);
	mt_blocks_file_free(&file);
}

/* ---- sums ---- */

static struct mt_blocks_entry idle(uint64_t base, uint64_t bytes, uint32_t age_ms)
{
	return (struct mt_blocks_entry){.base = base,
					.held_bytes = bytes,
					.asked_bytes = bytes,
					.age_ms = age_ms,
					.state = MT_BLOCKS_IDLE};
}

Test(blocksfile, decay_gives_back_what_has_lain_long_enough_by_then)
{
	struct mt_blocks_entry entries[] = {idle(1, MB, 29500), idle(2, 2 * MB, 25000),
					    idle(3, 4 * MB, 0), idle(4, 8 * MB, 40000)};
	struct mt_blocks_file blocks = {.head.decay_ms = 30000, .entries = entries, .count = 4};
	struct mt_pool_snapshot_sums sums;

	mt_pool_snapshot_sum(&blocks, MT_POOL_SNAPSHOT_ALL, &sums);
	cr_expect_eq(sums.decay[0].bytes, 9 * MB, "within 1 s");
	cr_expect_eq(sums.decay[1].bytes, 11 * MB, "within 10 s");
	cr_expect_eq(sums.decay[2].bytes, 15 * MB, "within 1 min");
	cr_expect_eq(sums.idle_ages[0].bytes, 4 * MB);
	cr_expect_eq(sums.idle_ages[2].bytes, 11 * MB);
	blocks.head.decay_ms = 0;
	mt_pool_snapshot_sum(&blocks, MT_POOL_SNAPSHOT_ALL, &sums);
	cr_expect_eq(sums.decay[5].count, 0);
}

Test(blocksfile, sums_are_of_the_device_that_is_asked_for)
{
	struct mt_pool_snapshot_sums all, one;

	cr_assert_eq(read_good(), MT_ERR_OK);
	mt_pool_snapshot_sum(&file, MT_POOL_SNAPSHOT_ALL, &all);
	mt_pool_snapshot_sum(&file, 1, &one);
	cr_expect_eq(all.count, COUNT);
	cr_expect_eq(one.count, COUNT / 2);
	cr_expect_eq(all.contexts_count, 3);
	mt_pool_snapshot_sum(&file, 2, &one);
	cr_expect_eq(one.count, 0);
	mt_blocks_file_free(&file);
}

Test(blocksfile, the_largest_are_picked_and_stay_in_their_order)
{
	struct mt_blocks_entry entries[] = {idle(1, MB, 0), idle(2, 4 * MB, 0), idle(3, 2 * MB, 0),
					    idle(4, 4 * MB, 0)};
	struct mt_blocks_file blocks = {.entries = entries, .count = 4};
	struct mt_pool_snapshot_view view = {MT_POOL_SNAPSHOT_ALL, 3};
	size_t count;
	const struct mt_blocks_entry **list = mt_pool_snapshot_pick(&blocks, &view, false, &count);

	cr_assert_eq(count, 3);
	cr_expect(list[0] == &entries[1] && list[1] == &entries[2] && list[2] == &entries[3]);
	free(list);
	list = mt_pool_snapshot_pick(&blocks, &view, true, &count);
	cr_expect(list[0] == &entries[1] && list[1] == &entries[3] && list[2] == &entries[2]);
	free(list);
	view.top = 0;
	free(mt_pool_snapshot_pick(&blocks, &view, false, &count));
	cr_expect_eq(count, 0);
}
