/* ctl/profile/lines_print.c -- prints Python lines as a table and as JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl/output/json.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "ctl/profile/lines.h"

#define STACKS_SHOWN  3
#define CALLERS_SHOWN 2

static const char *const cuts[] = {
#define X(name, text) [MT_LINES_CUT_##name] = text,
	MT_LINES_CUTS(X)
#undef X
};

/* What loops of Python code take while they are traced, as multiples of their time without:
 * `make bench-lines`, the least and the most of CPython 3.9 to 3.13. */
static const struct {
	uint32_t depth; /* up to so many frames */
	const char *times;
} costs[] = {{1, "2 to 10"}, {MT_LINES_DEPTH_MAX, "5 to 40"}};

static size_t shown(const struct mt_lines *lines, const struct mt_lines_view *view)
{
	return view->top && view->top < lines->count ? (size_t)view->top : lines->count;
}

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

static void print_summary(const struct mt_lines *lines, const struct mt_lines_view *view)
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

void mt_lines_print_table(const struct mt_lines *lines, const struct mt_lines_view *view)
{
	struct mt_table *table = mt_table_new(">GROWTH|>BLOCKS|>LIVE|>BLOCKS|<STEADY|<LINE");
	size_t count = shown(lines, view);

	print_summary(lines, view);
	for (size_t i = 0; i < count; i++) {
		const struct mt_line *line = &lines->list[i];

		mt_table_add(table, mt_text_signed_bytes(line->growth_bytes).text);
		mt_table_addf(table, "%" PRId64, line->growth_count);
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
		json_t *frame = json_object();

		mt_json_set_text(frame, "file", mt_lines_name(lines, &frames[i]));
		mt_json_set_u64(frame, "line", frames[i].line);
		mt_json_append(stack, frame);
	}
	mt_json_set(object, "stack", stack);
	return object;
}

json_t *mt_lines_json(const struct mt_lines *lines, const struct mt_lines_view *view)
{
	const struct mt_lines_head *head = &lines->file.head;
	json_t *object = json_object(), *list = json_array();

	mt_json_set_u64(object, "pid", (uint64_t)view->process->pid);
	mt_json_set_text(object, "comm", view->process->comm);
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
	for (size_t i = 0; i < shown(lines, view); i++)
		mt_json_append(list, line_json(lines, &lines->list[i]));
	mt_json_set(object, "lines", list);
	return object;
}

void mt_lines_print_json(const struct mt_lines *lines, const struct mt_lines_view *view)
{
	mt_json_print(mt_lines_json(lines, view), true);
}
