#include "ctl/process/blocks_file.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/checksum.h"
#include "ctl/process/read_file.h"

const char *mt_blocks_file_state(unsigned state)
{
	static const char *const names[] = {
		[MT_BLOCKS_LIVE] = "live",
		[MT_BLOCKS_EXPORTED] = "exported",
		[MT_BLOCKS_PENDING] = "pending",
		[MT_BLOCKS_IDLE] = "idle",
	};

	return state < MT_BLOCKS_STATES ? names[state] : "?";
}

static enum mt_err read_head(int fd, struct mt_blocks_head *head, struct mt_error_reason *why)
{
	struct stat seen;

	if (mt_read_file_at(fd, head, sizeof(*head), 0) != sizeof(*head) ||
	    head->magic != MT_BLOCKS_MAGIC)
		return mt_error_because(why, MT_ERR_INVALID, "refused: not a file of blocks");
	if (head->version != MT_BLOCKS_VERSION)
		return mt_error_because_version(why, "file of blocks", head->version);
	if (head->head_bytes != sizeof(*head) ||
	    head->entry_bytes != sizeof(struct mt_blocks_entry) ||
	    head->entries_count > MT_BLOCKS_MAX)
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the sizes in the file of blocks cannot be");
	if (head->checksum !=
	    mt_checksum(MT_CHECKSUM_START, head, offsetof(struct mt_blocks_head, checksum)))
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the checksum of the file of blocks is wrong");
	if (fstat(fd, &seen) != 0 ||
	    (uint64_t)seen.st_size !=
		    sizeof(*head) + (uint64_t)head->entries_count * sizeof(struct mt_blocks_entry))
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the file of blocks is not whole");
	return MT_ERR_OK;
}

static bool is_valid(const struct mt_blocks_entry *entry)
{
	return entry->state < MT_BLOCKS_STATES && entry->base != 0 &&
	       entry->held_bytes <= MT_BLOCKS_FILE_BYTES_MAX &&
	       entry->asked_bytes <= entry->held_bytes;
}

static enum mt_err check_entries(const struct mt_blocks_file *file, struct mt_error_reason *why)
{
	if (file->head.entries_sum !=
	    mt_checksum(MT_CHECKSUM_START, file->entries, file->count * sizeof(*file->entries)))
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the checksum of the blocks is wrong");
	for (size_t i = 0; i < file->count; i++)
		if (!is_valid(&file->entries[i]))
			return mt_error_because(why, MT_ERR_INVALID, "refused: block %zu cannot be",
						i);
	return MT_ERR_OK;
}

/* An entry with its index in the file, since qsort(3) is not stable. */
struct indexed_entry {
	struct mt_blocks_entry entry;
	size_t index;
};

static int compare(const void *a, const void *b)
{
	const struct indexed_entry *left = a, *right = b;

	if (left->entry.device != right->entry.device)
		return left->entry.device < right->entry.device ? -1 : 1;
	if (left->entry.base != right->entry.base)
		return left->entry.base < right->entry.base ? -1 : 1;
	return (left->index > right->index) - (left->index < right->index);
}

/* Of two entries with one address the later one is kept: the first was freed, and its address
 * allocated again, while the process wrote the list. */
static void sort(struct mt_blocks_file *file)
{
	struct indexed_entry *list = mt_error_check_memory(calloc(file->count + 1, sizeof(*list)));
	size_t kept = 0;

	for (size_t i = 0; i < file->count; i++)
		list[i] = (struct indexed_entry){file->entries[i], i};
	qsort(list, file->count, sizeof(*list), compare);
	for (size_t i = 0; i < file->count; i++) {
		if (kept && file->entries[kept - 1].device == list[i].entry.device &&
		    file->entries[kept - 1].base == list[i].entry.base)
			kept--;
		file->entries[kept++] = list[i].entry;
	}
	file->count = kept;
	free(list);
}

enum mt_err mt_blocks_file_read(int fd, struct mt_blocks_file *out, struct mt_error_reason *why)
{
	struct mt_blocks_file file = {.entries = NULL};
	enum mt_err error = read_head(fd, &file.head, why);
	size_t bytes;

	if (error)
		return error;
	file.count = file.head.entries_count;
	bytes = file.count * sizeof(*file.entries);
	file.entries = mt_error_check_memory(calloc(file.count + 1, sizeof(*file.entries)));
	if (mt_read_file_at(fd, file.entries, bytes, sizeof(file.head)) == bytes)
		error = check_entries(&file, why);
	else
		error = mt_error_because(why, MT_ERR_INVALID,
					 "refused: the file of blocks is not whole");
	if (error) {
		mt_blocks_file_free(&file);
		return error;
	}
	sort(&file);
	*out = file;
	return MT_ERR_OK;
}

void mt_blocks_file_free(struct mt_blocks_file *file)
{
	free(file->entries);
	*file = (struct mt_blocks_file){.entries = NULL};
}
