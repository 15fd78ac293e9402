/* ctl/profile/lines.c -- requests a look at a process's Python lines, and sums its stacks by
 * line. */
#include "ctl/profile/lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/channel/control_file.h"
#include "ctl/channel/stats_dir.h"
#include "ctl/channel/target.h"
#include "ctl/output/json.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "ctl/process/clock.h"
#include "ctl/process/limit.h"
#include "ctl/process/read_file.h"
#include "ctl/process/remote_python.h"
#include "ctl/profile/profile_internal.h"
#include "core/stats_layout.h"
#include "sys/saturating.h"

#define BESIDE_MAX_S       60.0
#define BESIDE_FRAMES      10
#define REQUEST_TIMEOUT_MS 5000u
#define POLL_MS            50u
/* The process has 2 s for the start and 10 s for the end (shim/python/lines.c), and a busy machine
 * needs time. */
#define MORE_TIME_MS 30000u

/* ---- the look ---- */

/* value: of the request, dump_layout.h has its form */
static enum mt_err send(const struct mt_process *process, const char *value, uint64_t *out_seq,
			struct mt_error_reason *why)
{
	struct mt_request request = {.kind = MT_REQUEST_LINES};
	struct mt_stats_head head;
	enum mt_err error;

	snprintf(request.value, sizeof(request.value), "%s", value);
	error = mt_control_file_exchange(process, request, REQUEST_TIMEOUT_MS, &head, why);
	if (head.snapshot.request_error == MT_ERR_NOT_AVAILABLE)
		return mt_error_because(why, MT_ERR_NOT_AVAILABLE,
					"another look at its Python lines runs; it ends by itself");
	*out_seq = head.snapshot.request_seq;
	return error;
}

/* Whose tracing it is, as far as a file has said so. */
enum begun { NOT_BEGUN, BEGUN_OURS, BEGUN_OWN };

static enum mt_err has_ended(struct mt_error_reason *why)
{
	return mt_error_because(why, MT_ERR_UNKNOWN, "the process has ended during the look");
}

/* A look that runs. */
struct look {
	const struct mt_process *process;
	uint64_t seq; /* of the request that began it */
	struct mt_lines_file *out;
	enum begun begun;
};

/* Returns true with the file, or with the reason why there will be none. A file of an earlier
 * request counts as none. */
static bool poll(struct look *look, enum mt_err *error, struct mt_error_reason *why)
{
	bool is_alive = mt_process_is_alive(look->process);
	struct mt_lines_head *head = &look->out->head;
	int fd;

	*error = mt_stats_dir_open(look->process, MT_STATS_DIR_LINES, &fd, why);
	if (!*error) {
		*error = mt_lines_file_read(fd, look->out, why);
		close(fd);
		if (*error)
			return true;
		if (head->request_seq == look->seq &&
		    (head->outcome == MT_LINES_BEGUN || head->outcome == MT_LINES_DONE))
			look->begun = head->is_own ? BEGUN_OWN : BEGUN_OURS;
		if (head->request_seq == look->seq && head->outcome != MT_LINES_BEGUN)
			return true;
		mt_lines_file_free(look->out);
	}
	if (!is_alive)
		*error = has_ended(why);
	return !is_alive || (*error && *error != MT_ERR_NOT_AVAILABLE);
}

static enum mt_err wait_for_file(struct look *look, const struct mt_lines_options *options,
				 struct mt_error_reason *why)
{
	uint64_t end_ns = mt_clock_now_ns() + (options->for_ms + MORE_TIME_MS) * 1000000u;
	bool is_stopped = false, is_said = !options->begun, is_over = false;
	uint64_t stop_seq;
	enum mt_err error;

	while (!is_over) {
		is_over = poll(look, &error, why);
		if (look->begun != NOT_BEGUN && !is_said) {
			options->begun(look->process, options, look->begun == BEGUN_OWN);
			is_said = true;
		}
		if (is_over)
			break;
		if (options->stop && *options->stop && !is_stopped) {
			is_stopped = true;
			(void)send(look->process, "0 1", &stop_seq, why);
		}
		if (mt_clock_now_ns() >= end_ns)
			return mt_error_because(
				why, MT_ERR_TIMEOUT,
				"no result in time: its worker thread does not run");
		mt_clock_sleep_ms(POLL_MS);
	}
	return error;
}

static enum mt_err explain(const struct mt_lines_head *head, struct mt_error_reason *why)
{
	static const char *const texts[] = {
#define X(name, text) [MT_LINES_##name] = text,
		MT_LINES_OUTCOMES(X)
#undef X
	};
	const char *text = texts[head->outcome];

	switch ((enum mt_lines_outcome)head->outcome) {
	case MT_LINES_DONE:
		return MT_ERR_OK;
	case MT_LINES_START_BLOCKED:
	case MT_LINES_START_LATE:
	case MT_LINES_END_BLOCKED:
	case MT_LINES_END_LATE:
		return mt_error_because(why, MT_ERR_TIMEOUT, "%s", text);
	default:
		return mt_error_because(why, MT_ERR_NOT_AVAILABLE, "%s", text);
	}
}

/* ---- without the shim ---- */

struct remote_look {
	const struct mt_process *process;
	const struct mt_lines_options *options;
};

/* What a look of ours costs was said before it began. */
static void say_own(void *argument, bool is_own)
{
	const struct remote_look *look = argument;

	if (is_own && look->options->begun)
		look->options->begun(look->process, look->options, true);
}

/* Half of the room below the limit is for the look. */
static uint32_t blocks_max(const struct mt_process *process)
{
	const uint64_t block_bytes = MT_LINES_TABLE_BYTES + MT_LINES_READ_BYTES;
	struct mt_limit limit;
	uint64_t room;

	if (mt_limit_find("", process->pid, &limit) != MT_ERR_OK)
		return MT_LINES_BLOCKS_MAX;
	room = mt_sat_sub(limit.limit_bytes, limit.used_bytes) / 2 / block_bytes;
	return room < MT_LINES_BLOCKS_MAX ? (uint32_t)room : MT_LINES_BLOCKS_MAX;
}

static enum mt_err collect_without_shim(const struct mt_process *process,
					const struct mt_lines_options *options,
					struct mt_lines_file *out, struct mt_error_reason *why)
{
	struct remote_look look = {process, options};
	const struct mt_remote_lines wanted = {.for_ms = options->for_ms,
					       .depth = options->depth,
					       .blocks_max = blocks_max(process),
					       .stop = options->stop,
					       .begun = say_own,
					       .argument = &look};
	struct mt_remote_python remote;
	enum mt_err error = mt_remote_python_find(process, &remote, why);
	int fd;

	if (error)
		return error;
	if (options->begun)
		options->begun(process, options, false);
	error = mt_remote_python_lines(&remote, &wanted, &fd, why);
	if (error)
		return error;
	error = mt_lines_file_read(fd, out, why);
	close(fd);
	if (!error && out->head.outcome == MT_LINES_ENDED && !mt_process_is_alive(process)) {
		mt_lines_file_free(out);
		error = has_ended(why);
	}
	return error;
}

enum mt_err mt_lines_collect(const struct mt_process *process,
			     const struct mt_lines_options *options, struct mt_lines *out,
			     struct mt_error_reason *why)
{
	struct mt_lines_file file;
	struct look look = {.process = process, .out = &file};
	char value[48];
	enum mt_err error;

	snprintf(value, sizeof(value), "%" PRIu64 " %u", options->for_ms, options->depth);
	if (process->shimmed)
		error = send(process, value, &look.seq, why);
	else
		error = collect_without_shim(process, options, &file, why);
	if (!error && process->shimmed)
		error = wait_for_file(&look, options, why);
	if (error)
		return error;
	error = explain(&file.head, why);
	if (error)
		mt_lines_file_free(&file);
	else
		mt_lines_read(&file, out);
	return error;
}

/* ---- the line of a stack ---- */

const char *mt_lines_name(const struct mt_lines *lines, const struct mt_lines_frame *frame)
{
	return lines->file.names + frame->name;
}

/* Packages, the standard library, and what starts a program from a package: a script without .py in
 * a folder of programs. */
static bool is_library(const char *name)
{
	static const char *const parts[] = {"/site-packages/", "/dist-packages/", "/lib/python3",
					    "/lib64/python3"};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(name, parts[i]))
			return true;
	return strstr(name, "/bin/") && !mt_text_ends_with(name, ".py");
}

enum mt_err mt_lines_collect_beside(const struct mt_process *process, double seconds,
				    const volatile sig_atomic_t *stop, struct mt_lines *out,
				    struct mt_error_reason *why)
{
	double span_s = seconds < BESIDE_MAX_S ? seconds : BESIDE_MAX_S;
	const struct mt_lines_options look = {.for_ms = (uint64_t)(span_s * 1000) + 1,
					      .depth = BESIDE_FRAMES,
					      .stop = stop,
					      .begun = mt_lines_say_cost};

	return mt_lines_collect(process, &look, out, why);
}

/* Code without a file, as of python -c or of a notebook's cell. "<string>" is also what
 * dataclasses and namedtuple generate. */
bool mt_lines_is_typed_in(const char *name)
{
	static const char *const names[] = {"<string>", "<stdin>", "<ipython-input",
					    "<python-input", "<console>"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(name, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

bool mt_lines_is_own(const char *name)
{
	return *name != '<' && !is_library(name);
}

static const struct mt_lines_frame *frame_of(const struct mt_lines *lines,
					     const struct mt_lines_stack *stack)
{
	const struct mt_lines_frame *frames = &lines->file.frames[stack->first_frame];

	for (uint32_t i = 0; i < stack->frames_count; i++)
		if (mt_lines_is_own(mt_lines_name(lines, &frames[i])))
			return &frames[i];
	for (uint32_t i = 0; i < stack->frames_count; i++)
		if (mt_lines_is_typed_in(mt_lines_name(lines, &frames[i])))
			return &frames[i];
	return frames;
}

/* ---- sums ---- */

static uint64_t last_bytes(const struct mt_lines *lines, const uint64_t *each)
{
	uint32_t count = lines->file.head.readings_count;

	return count ? each[count - 1] : 0;
}

/* With one reading alone all that is live has grown since the beginning. */
static int64_t growth_of(const struct mt_lines *lines, const uint64_t *each)
{
	int64_t last = (int64_t)last_bytes(lines, each);

	return lines->file.head.readings_count > 1 ? last - (int64_t)each[0] : last;
}

static bool is_steady(const struct mt_lines *lines, const struct mt_line *line)
{
	uint32_t count = lines->file.head.readings_count;
	uint64_t most = 0, least = UINT64_MAX;

	for (uint32_t i = 0; i < count; i++) {
		if (i < count / 2 && line->each[i] > most)
			most = line->each[i];
		if (i >= count - (count + 1) / 2 && line->each[i] < least)
			least = line->each[i];
	}
	return count && least > most;
}

static int compare_places(const void *a, const void *b)
{
	const struct mt_line *left = a, *right = b;
	int order = strcmp(left->file, right->file);

	return order ? order : (left->line > right->line) - (left->line < right->line);
}

/* Steady growth first, the largest first; equal ones in the order of their lines, so that the
 * output is reproducible. */
static int compare_growth(const void *a, const void *b)
{
	const struct mt_line *left = a, *right = b;

	if (left->is_steady != right->is_steady)
		return left->is_steady ? -1 : 1;
	if (left->growth_bytes != right->growth_bytes)
		return left->growth_bytes < right->growth_bytes ? 1 : -1;
	if (left->bytes != right->bytes)
		return left->bytes < right->bytes ? 1 : -1;
	return compare_places(a, b);
}

static void add(const struct mt_lines *lines, struct mt_line *to, const struct mt_line *from)
{
	if (growth_of(lines, from->stack->bytes) > growth_of(lines, to->stack->bytes))
		to->stack = from->stack;
	to->bytes += from->bytes;
	to->count += from->count;
	to->growth_bytes += from->growth_bytes;
	to->growth_count += from->growth_count;
	for (uint32_t i = 0; i < MT_LINES_READINGS; i++)
		to->each[i] += from->each[i];
}

static struct mt_line line_of(const struct mt_lines *lines, const struct mt_lines_stack *stack)
{
	const struct mt_lines_frame *frame = frame_of(lines, stack);
	struct mt_line line = {
		.file = mt_lines_name(lines, frame),
		.line = frame->line,
		.bytes = last_bytes(lines, stack->bytes),
		.count = stack->last_count,
		.growth_bytes = growth_of(lines, stack->bytes),
		.growth_count = (int64_t)stack->last_count,
		.stack = stack,
	};

	if (lines->file.head.readings_count > 1)
		line.growth_count -= (int64_t)stack->first_count;
	memcpy(line.each, stack->bytes, sizeof(line.each));
	return line;
}

/* Merges neighbours of one line, and sets is_steady. */
static size_t merge(const struct mt_lines *lines, struct mt_line *list, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (kept && compare_places(&list[kept - 1], &list[i]) == 0)
			add(lines, &list[kept - 1], &list[i]);
		else
			list[kept++] = list[i];
	for (size_t i = 0; i < kept; i++)
		list[i].is_steady = is_steady(lines, &list[i]);
	return kept;
}

void mt_lines_read(struct mt_lines_file *file, struct mt_lines *out)
{
	const struct mt_lines_head *head = &file->head;
	uint64_t first_ns = head->readings_count > 1 ? head->readings_ns[0] : 0;

	*out = (struct mt_lines){.file = *file};
	out->growth_ns = head->look_ns > first_ns ? head->look_ns - first_ns : 0;
	out->list = mt_error_check_memory(calloc(head->stacks_count + 1, sizeof(*out->list)));
	for (uint32_t i = 0; i < head->stacks_count; i++) {
		out->list[i] = line_of(out, &file->stacks[i]);
		out->bytes += out->list[i].bytes;
		out->blocks_count += out->list[i].count;
		out->growth_bytes += out->list[i].growth_bytes;
	}
	qsort(out->list, head->stacks_count, sizeof(*out->list), compare_places);
	out->count = merge(out, out->list, head->stacks_count);
	qsort(out->list, out->count, sizeof(*out->list), compare_growth);
}

void mt_lines_free(struct mt_lines *lines)
{
	mt_lines_file_free(&lines->file);
	free(lines->list);
	*lines = (struct mt_lines){.list = NULL};
}

/* ---- the file of lines ---- */

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
	    mt_stats_checksum(MT_CHECKSUM_START, head, offsetof(struct mt_lines_head, checksum)))
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
	if (head->content_sum != mt_stats_checksum(MT_CHECKSUM_START, file->content, bytes))
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the checksum of the lines is wrong");
	if (!content_is_valid(file))
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: a stack in the file of lines cannot be");
	for (size_t at = 0, length; at < head->names_bytes; at += length + 1) {
		length = strlen(file->names + at);
		mt_text_clean(file->names + at, length + 1);
	}
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

/* ---- lines print ---- */

#define STACKS_SHOWN  3
#define CALLERS_SHOWN 2

static const char *const cuts[] = {
#define LINES_PRINT_X(name, text) [MT_LINES_CUT_##name] = text,
	MT_LINES_CUTS(LINES_PRINT_X)
#undef LINES_PRINT_X
};

/* What loops of Python code take while they are traced, as multiples of their time without:
 * `make bench-lines`, the least and the most of CPython 3.9 to 3.13. */
static const struct {
	uint32_t depth; /* up to so many frames */
	const char *times;
} costs[] = {{1, "2 to 10"}, {MT_LINES_DEPTH_MAX, "5 to 40"}};

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

void mt_lines_say_cost(const struct mt_process *process, const struct mt_lines_options *options,
		       bool is_own)
{
	size_t i = options->depth > costs[0].depth;
	const char *stop_ms = process->shimmed ? "0.5" : "2"; /* by Python code */

	if (is_own) {
		mt_error_say(
			"process %d (%s): it runs tracemalloc itself, which is read for %.1f s "
			"and stays as it is. Each of %u readings stops the program for some %s ms "
			"per 1,000 of its blocks. Ctrl-C ends it early",
			(int)process->pid, process->comm, seconds(options->for_ms * 1000000u),
			MT_LINES_READINGS, stop_ms);
		return;
	}
	if (!process->shimmed)
		mt_error_say("process %d (%s): it does not carry the shim: sys.remote_exec() of "
			     "its Python runs scripts of mtctl in its main thread",
			     (int)process->pid, process->comm);
	mt_error_say(
		"process %d (%s): tracemalloc follows Python's allocations for %.1f s. Meanwhile "
		"Python code takes %s times as long; code in C, as numpy's, as long as before. "
		"Each new block takes %u bytes more, and each of up to %u readings stops the "
		"program for some %s ms per 1,000 of them. Ctrl-C ends it early",
		(int)process->pid, process->comm, seconds(options->for_ms * 1000000u),
		costs[i].times, MT_LINES_TABLE_BYTES, MT_LINES_READINGS, stop_ms);
}

static void print_summary(const struct mt_lines *lines, const struct mt_sites_view *view)
{
	const struct mt_lines_head *head = &lines->file.head;

	printf("process %d (%s): ", (int)view->process->pid, view->process->comm);
	if (head->is_own)
		printf("the program's own tracemalloc holds %s in %s; growth is of %.1f s\n",
		       mt_text_signed_bytes((int64_t)lines->bytes).text,
		       mt_text_counted(lines->blocks_count, "block", "blocks").text,
		       seconds(lines->growth_ns));
	else
		printf("%s in %s allocated within %.1f s and still live; growth is of the last "
		       "%.1f s\n",
		       mt_text_signed_bytes((int64_t)lines->bytes).text,
		       mt_text_counted(lines->blocks_count, "block", "blocks").text,
		       seconds(head->look_ns), seconds(lines->growth_ns));
	if (head->cut)
		printf("the look has ended early: %s\n", cuts[head->cut]);
	if (head->left_out_count)
		printf("%s in %s more, of stacks beyond the first %u, are in no line\n",
		       mt_text_signed_bytes((int64_t)head->left_out_bytes).text,
		       mt_text_counted(head->left_out_count, "block", "blocks").text,
		       MT_LINES_STACKS_MAX);
	printf("cost: the program was stopped for %s in all, %s at once; tracemalloc held %s\n",
	       mt_text_ns(head->stopped_ns).text, mt_text_ns(head->longest_stop_ns).text,
	       mt_text_signed_bytes((int64_t)head->tables_bytes).text);
}

/* Returns how many frames of the stack tell how the line got there: up to the line and a few
 * callers. */
static uint32_t telling_frames(const struct mt_lines *lines, const struct mt_line *line)
{
	const struct mt_lines_frame *frames = &lines->file.frames[line->stack->first_frame];
	uint32_t count = line->stack->frames_count, own = 0;

	for (uint32_t i = 0; i < count && !own; i++)
		if (frames[i].line == line->line &&
		    strcmp(mt_lines_name(lines, &frames[i]), line->file) == 0)
			own = i + 1;
	return own + CALLERS_SHOWN < count ? own + CALLERS_SHOWN : count;
}

/* The stack that has grown most, unless it is the line alone. */
static void print_stack(const struct mt_lines *lines, size_t number, const struct mt_line *line)
{
	const struct mt_lines_frame *frames = &lines->file.frames[line->stack->first_frame];
	uint32_t count = telling_frames(lines, line);

	if (count == 1)
		return;
	printf("\n%zu. %s:%" PRIu32 "\n", number, line->file, line->line);
	for (uint32_t i = 0; i < count; i++)
		printf("   %s %s:%" PRIu32 "\n", i ? "called by" : "allocated at",
		       mt_lines_name(lines, &frames[i]), frames[i].line);
}

void mt_lines_print_table(const struct mt_lines *lines, const struct mt_sites_view *view)
{
	struct mt_table *table = mt_table_new(">GROWTH|>BLOCKS|>LIVE|>BLOCKS|<STEADY|<LINE");
	size_t count = mt_sites_shown(view, lines->count);

	print_summary(lines, view);
	for (size_t i = 0; i < count; i++) {
		const struct mt_line *line = &lines->list[i];
		uint64_t grown = (uint64_t)line->growth_count;

		mt_table_add(table, mt_text_signed_bytes(line->growth_bytes).text);
		mt_table_addf(table, "%s%s", line->growth_count < 0 ? "-" : "",
			      mt_text_count(line->growth_count < 0 ? 0 - grown : grown).text);
		mt_table_add(table, mt_text_signed_bytes((int64_t)line->bytes).text);
		mt_table_add(table, mt_text_count(line->count).text);
		mt_table_add(table, line->is_steady ? "yes" : "-");
		mt_table_addf(table, "%s:%" PRIu32, line->file, line->line);
	}
	putchar('\n');
	mt_table_print(table);
	for (size_t i = 0; i < count && i < STACKS_SHOWN; i++)
		print_stack(lines, i + 1, &lines->list[i]);
	if (count < lines->count)
		printf("\n%s; --top=0 shows all\n",
		       mt_text_counted(lines->count - count, "more line", "more lines").text);
}

static json_t *line_json(const struct mt_lines *lines, const struct mt_line *line)
{
	const struct mt_lines_frame *frames = &lines->file.frames[line->stack->first_frame];
	json_t *object = json_object(), *stack = json_array();

	mt_json_set_text(object, "file", line->file);
	mt_json_set_u64(object, "line", line->line);
	mt_json_set_u64(object, "bytes", line->bytes);
	mt_json_set_u64(object, "blocks_count", line->count);
	mt_json_set(object, "growth_bytes", json_integer(line->growth_bytes));
	mt_json_set(object, "growth_count", json_integer(line->growth_count));
	mt_json_set_bool(object, "steady", line->is_steady);
	for (uint32_t i = 0; i < line->stack->frames_count; i++) {
		json_t *frame = mt_json_append_object(stack);

		mt_json_set_text(frame, "file", mt_lines_name(lines, &frames[i]));
		mt_json_set_u64(frame, "line", frames[i].line);
	}
	mt_json_set(object, "stack", stack);
	return object;
}

json_t *mt_lines_json(const struct mt_lines *lines, const struct mt_sites_view *view)
{
	const struct mt_lines_head *head = &lines->file.head;
	json_t *object = mt_process_json(view->process), *list = json_array();

	mt_json_set_text(object, "kind", "python");
	mt_json_set_bool(object, "own_tracemalloc", head->is_own);
	mt_json_set_u64(object, "over_ms", head->look_ns / 1000000u);
	mt_json_set_u64(object, "growth_over_ms", lines->growth_ns / 1000000u);
	mt_json_set_text_or_null(object, "ended_early", cuts[head->cut]);
	mt_json_set_u64(object, "frames_count", head->depth);
	mt_json_set_u64(object, "stopped_ns", head->stopped_ns);
	mt_json_set_u64(object, "longest_stop_ns", head->longest_stop_ns);
	mt_json_set_u64(object, "tables_bytes", head->tables_bytes);
	mt_json_set_u64(object, "bytes", lines->bytes);
	mt_json_set_u64(object, "blocks_count", lines->blocks_count);
	mt_json_set(object, "growth_bytes", json_integer(lines->growth_bytes));
	mt_json_set_u64(object, "left_out_bytes", head->left_out_bytes);
	mt_json_set_u64(object, "left_out_count", head->left_out_count);
	mt_json_set_u64(object, "lines_count", lines->count);
	for (size_t i = 0; i < mt_sites_shown(view, lines->count); i++)
		mt_json_append(list, line_json(lines, &lines->list[i]));
	mt_json_set(object, "lines", list);
	return object;
}
