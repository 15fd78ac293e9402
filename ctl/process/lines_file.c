#include "ctl/process/lines_file.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/checksum.h"
#include "ctl/output/text.h"
#include "ctl/process/read_file.h"

static uint64_t content_bytes(const struct mt_lines_head *head)
{
	return (uint64_t)head->stacks_count * sizeof(struct mt_lines_stack) +
	       (uint64_t)head->frames_count * sizeof(struct mt_lines_frame) + head->names_bytes;
}

static bool sizes_are_valid(const struct mt_lines_head *head)
{
	return head->head_bytes == sizeof(*head) &&
	       head->stack_bytes == sizeof(struct mt_lines_stack) &&
	       head->stacks_count <= MT_LINES_STACKS_MAX &&
	       head->frames_count <= MT_LINES_FRAMES_MAX &&
	       head->names_bytes <= MT_LINES_NAMES_MAX && head->names_bytes % 8 == 0 &&
	       head->outcome < MT_LINES_OUTCOME_COUNT && head->cut < MT_LINES_CUT_COUNT &&
	       head->readings_count <= MT_LINES_READINGS &&
	       head->left_out_bytes <= MT_LINES_FILE_BYTES_MAX;
}

static enum mt_err read_head(int fd, struct mt_lines_head *head, struct mt_error_reason *why)
{
	struct stat seen;

	if (mt_read_file_at(fd, head, sizeof(*head), 0) != sizeof(*head) ||
	    head->magic != MT_LINES_MAGIC)
		return mt_error_because(why, MT_ERR_INVALID, "refused: not a file of lines");
	if (head->version != MT_LINES_VERSION)
		return mt_error_because_version(why, "file of lines", head->version);
	if (!sizes_are_valid(head))
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the sizes in the file of lines cannot be");
	if (head->checksum !=
	    mt_checksum(MT_CHECKSUM_START, head, offsetof(struct mt_lines_head, checksum)))
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the checksum of the file of lines is wrong");
	if (fstat(fd, &seen) != 0 || (uint64_t)seen.st_size != sizeof(*head) + content_bytes(head))
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the file of lines is not whole");
	return MT_ERR_OK;
}

static bool stack_is_valid(const struct mt_lines_file *file, const struct mt_lines_stack *stack)
{
	for (uint32_t i = 0; i < MT_LINES_READINGS; i++)
		if (stack->bytes[i] > MT_LINES_FILE_BYTES_MAX)
			return false;
	return stack->frames_count >= 1 && stack->frames_count <= MT_LINES_DEPTH_MAX &&
	       stack->first_frame < file->head.frames_count &&
	       stack->frames_count <= file->head.frames_count - stack->first_frame &&
	       stack->first_count <= MT_LINES_FILE_BYTES_MAX &&
	       stack->last_count <= MT_LINES_FILE_BYTES_MAX;
}

/* The last NUL ends every name that begins before it. */
static bool content_is_valid(const struct mt_lines_file *file)
{
	const struct mt_lines_head *head = &file->head;

	if (head->frames_count &&
	    (!head->names_bytes || file->names[head->names_bytes - 1] != '\0'))
		return false;
	for (uint32_t i = 0; i < head->frames_count; i++)
		if (file->frames[i].name >= head->names_bytes)
			return false;
	for (uint32_t i = 0; i < head->stacks_count; i++)
		if (!stack_is_valid(file, &file->stacks[i]))
			return false;
	return true;
}

static void clean_names(struct mt_lines_file *file)
{
	size_t length;

	for (size_t at = 0; at < file->head.names_bytes; at += length + 1) {
		length = strlen(file->names + at);
		mt_text_clean(file->names + at, length + 1);
	}
}

static enum mt_err read_content(int fd, struct mt_lines_file *file, struct mt_error_reason *why)
{
	const struct mt_lines_head *head = &file->head;
	size_t bytes = (size_t)content_bytes(head);

	file->content = mt_error_check_memory(calloc(1, bytes + 1));
	file->stacks = file->content;
	file->frames = (struct mt_lines_frame *)(void *)(file->stacks + head->stacks_count);
	file->names = (char *)(file->frames + head->frames_count);
	if (mt_read_file_at(fd, file->content, bytes, sizeof(*head)) != bytes)
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the file of lines is not whole");
	if (head->content_sum != mt_checksum(MT_CHECKSUM_START, file->content, bytes))
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the checksum of the lines is wrong");
	if (!content_is_valid(file))
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: a stack in the file of lines cannot be");
	clean_names(file);
	return MT_ERR_OK;
}

enum mt_err mt_lines_file_read(int fd, struct mt_lines_file *out, struct mt_error_reason *why)
{
	struct mt_lines_file file = {.content = NULL};
	enum mt_err error = read_head(fd, &file.head, why);

	if (!error)
		error = read_content(fd, &file, why);
	if (error)
		mt_lines_file_free(&file);
	else
		*out = file;
	return error;
}

void mt_lines_file_free(struct mt_lines_file *file)
{
	free(file->content);
	*file = (struct mt_lines_file){.content = NULL};
}
