/* ctl/profile/sites_collect.c -- requests a profile, reads it, names and merges its stacks. */
#include "ctl/profile/sites.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/channel/control_file.h"
#include "ctl/channel/stats_dir.h"
#include "ctl/process/read_file.h"
#include "ctl/profile/lines.h"
#include "ctl/profile/profile_internal.h"
#include "sys/saturating.h"

#define TIMEOUT_MS     30000u
#define FILE_MAX_BYTES ((off_t)256 << 20)
#define NO_STACK       "(no stack)"

static char *read_all(int fd, size_t *out_bytes, struct mt_error_reason *why)
{
	struct stat seen;
	char *text;

	if (fstat(fd, &seen) != 0 || seen.st_size > FILE_MAX_BYTES) {
		mt_error_because(why, MT_ERR_INVALID, "refused: the profile is larger than 256 MB");
		return NULL;
	}
	text = mt_error_check_memory(malloc((size_t)seen.st_size + 1));
	*out_bytes = mt_read_file_at(fd, text, (size_t)seen.st_size, 0);
	return text;
}

static enum mt_err read_profile(const struct mt_process *process, struct mt_heap_profile *out,
				struct mt_error_reason *why)
{
	enum mt_err error;
	size_t bytes;
	char *text;
	int fd;

	error = mt_stats_dir_open(process, MT_STATS_DIR_HEAP, &fd, why);
	if (error)
		return error;
	text = read_all(fd, &bytes, why);
	close(fd);
	if (!text)
		return MT_ERR_SYSTEM;
	error = mt_heap_profile_parse(text, bytes, out, why);
	free(text);
	return error;
}

/* Requests a profile. *head is the head after the reply. */
static enum mt_err request_profile(const struct mt_process *process, struct mt_stats_head *head,
				   struct mt_error_reason *why)
{
	const struct mt_request request = {.kind = MT_REQUEST_PROFILE};
	enum mt_err error = mt_target_read_head(process, head, why);

	if (error)
		return error;
	if (mt_stats_why_no_profile(head))
		return mt_error_because(why, MT_ERR_NOT_AVAILABLE, "%s",
					mt_stats_why_no_profile(head));
	error = mt_control_file_exchange(process, request, TIMEOUT_MS, head, why);
	if (head->snapshot.request_error)
		error = mt_error_because(why, MT_ERR_SYSTEM, "it could not write its profile: %s",
					 mt_error_text(head->snapshot.request_error));
	return error;
}

/* ---- names ---- */

static int compare_addresses(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* Every address once, sorted, with its name at the same index. The shim's own addresses are left
 * out. */
struct names {
	uint64_t *addresses;
	char **texts;
	size_t count;
};

static struct names name_all(const struct mt_heap_profile *file, struct mt_symbols *symbols)
{
	size_t room = file->addresses_count + 1;
	struct names names = {
		.addresses = mt_error_check_memory(calloc(room, sizeof(*names.addresses))),
		.texts = mt_error_check_memory(calloc(room, sizeof(*names.texts))),
	};
	uint64_t *sorted = mt_error_check_memory(calloc(room, sizeof(*sorted)));

	if (file->addresses_count)
		memcpy(sorted, file->addresses, file->addresses_count * sizeof(*sorted));
	qsort(sorted, file->addresses_count, sizeof(*sorted), compare_addresses);
	for (size_t i = 0; i < file->addresses_count; i++) {
		if (names.count && names.addresses[names.count - 1] == sorted[i])
			continue;
		if (!mt_heap_profile_line(file, sorted[i]) &&
		    !mt_symbols_is_shim(symbols, sorted[i]))
			names.addresses[names.count++] = sorted[i];
	}
	free(sorted);
	mt_symbolizer_fill(symbols, names.addresses, names.count, names.texts);
	return names;
}

/* ---- sites ---- */

static void add_frame(struct mt_site *site, const char *frame)
{
	if (site->frames_count < MT_SITES_FRAMES)
		site->frames[site->frames_count++] = frame;
}

/* The innermost line that is the program's own; else one without a file; else the innermost. */
static const struct mt_heap_profile_line *own_line(const struct mt_heap_profile *file,
						   const uint64_t *addresses, size_t count)
{
	const struct mt_heap_profile_line *line, *typed_in = NULL;

	for (size_t i = 0; i < count; i++) {
		line = mt_heap_profile_line(file, addresses[i]);
		if (line->is_own)
			return line;
		typed_in = !typed_in && line->is_typed_in ? line : typed_in;
	}
	return typed_in || !count ? typed_in : mt_heap_profile_line(file, addresses[0]);
}

/* Lines of Python stand at the beginning of the stack in the file. */
static void fill_site(const struct mt_heap_profile *file, const struct mt_heap_profile_stack *stack,
		      const struct names *names, struct mt_site *out)
{
	const uint64_t *addresses = file->addresses + stack->first;
	const struct mt_heap_profile_line *own;
	size_t lines = 0, done = 0;

	*out = (struct mt_site){.sampled_count = stack->sampled_count};
	mt_heap_profile_scale(file->rate_bytes, stack->sampled_count, stack->sampled_bytes,
			      &out->live_count, &out->live_bytes);
	while (lines < stack->frames_count && mt_heap_profile_line(file, addresses[lines]))
		lines++;
	own = own_line(file, addresses, lines);
	out->python = own ? own->text : NULL;
	for (size_t i = lines; i < stack->frames_count; i++) {
		const uint64_t *at = bsearch(&addresses[i], names->addresses, names->count,
					     sizeof(*at), compare_addresses);
		const char *name = at ? names->texts[at - names->addresses] : NULL;

		/* the loop of the interpreter, whatever its version and its compiler name it */
		for (; name && strncmp(name, "_PyEval_EvalFrame", 17) == 0 && done < lines; done++)
			add_frame(out, mt_heap_profile_line(file, addresses[done])->text);
		if (name)
			add_frame(out, name);
	}
	for (; done < lines; done++)
		add_frame(out, mt_heap_profile_line(file, addresses[done])->text);
	if (!out->frames_count)
		add_frame(out, NO_STACK);
}

static int compare_frames(const void *a, const void *b)
{
	const struct mt_site *left = a, *right = b;

	for (size_t i = 0; i < left->frames_count && i < right->frames_count; i++) {
		int order = left->frames[i] == right->frames[i]
				    ? 0
				    : strcmp(left->frames[i], right->frames[i]);

		if (order)
			return order;
	}
	return (left->frames_count > right->frames_count) -
	       (left->frames_count < right->frames_count);
}

/* The largest first. Equal ones are in the order of their frames, so that the output is
 * reproducible. */
static int compare_bytes(const void *a, const void *b)
{
	const struct mt_site *left = a, *right = b;

	if (left->live_bytes != right->live_bytes)
		return left->live_bytes < right->live_bytes ? 1 : -1;
	return compare_frames(a, b);
}

/* Merges equal stacks of a list that is sorted by frames. Returns how many are left. */
static size_t merge(struct mt_site *list, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (kept && compare_frames(&list[kept - 1], &list[i]) == 0) {
			list[kept - 1].live_bytes += list[i].live_bytes;
			list[kept - 1].live_count += list[i].live_count;
			list[kept - 1].sampled_count += list[i].sampled_count;
		} else {
			list[kept++] = list[i];
		}
	}
	return kept;
}

static void finish(struct mt_sites *sites)
{
	for (size_t i = 0; i < sites->count; i++) {
		sites->live_bytes += sites->list[i].live_bytes;
		sites->sampled_count += sites->list[i].sampled_count;
	}
	if (sites->count)
		qsort(sites->list, sites->count, sizeof(*sites->list), compare_bytes);
}

/* The texts of lines outlive the profile. */
static void take_texts(struct mt_heap_profile *file, struct mt_sites *to)
{
	size_t count = to->names_count + file->lines_count;

	to->names = mt_error_check_memory(reallocarray(to->names, count + 1, sizeof(*to->names)));
	for (size_t i = 0; i < file->lines_count; i++)
		to->names[to->names_count++] = file->lines[i].text;
	file->lines_count = 0;
}

void mt_sites_read(struct mt_heap_profile *file, struct mt_symbols *symbols, struct mt_sites *out)
{
	struct names names = name_all(file, symbols);

	*out = (struct mt_sites){
		.rate_bytes = file->rate_bytes, .names = names.texts, .names_count = names.count};
	out->list = mt_error_check_memory(calloc(file->stacks_count + 1, sizeof(*out->list)));
	for (size_t i = 0; i < file->stacks_count; i++)
		fill_site(file, &file->stacks[i], &names, &out->list[i]);
	qsort(out->list, file->stacks_count, sizeof(*out->list), compare_frames);
	out->count = merge(out->list, file->stacks_count);
	finish(out);
	take_texts(file, out);
	free(names.addresses);
}

void mt_sites_growth(const struct mt_sites *before, const struct mt_sites *after,
		     struct mt_sites *out)
{
	struct mt_site *old = mt_error_check_memory(calloc(before->count + 1, sizeof(*old)));

	*out = (struct mt_sites){.rate_bytes = after->rate_bytes, .samples = after->samples};
	out->list = mt_error_check_memory(calloc(after->count + 1, sizeof(*out->list)));
	if (before->count)
		memcpy(old, before->list, before->count * sizeof(*old));
	qsort(old, before->count, sizeof(*old), compare_frames);
	for (size_t i = 0; i < after->count; i++) {
		struct mt_site site = after->list[i];
		const struct mt_site *was =
			bsearch(&site, old, before->count, sizeof(*old), compare_frames);

		if (was && was->live_bytes >= site.live_bytes)
			continue;
		site.live_bytes -= was ? was->live_bytes : 0;
		site.live_count -= was && was->live_count < site.live_count ? was->live_count : 0;
		out->list[out->count++] = site;
	}
	free(old);
	finish(out);
}

static void add_lines_site(const struct mt_lines *lines, const struct mt_lines_stack *stack,
			   struct mt_sites *to)
{
	struct mt_site *site = &to->list[to->count];

	for (uint32_t i = 0; i < stack->frames_count; i++) {
		const struct mt_lines_frame *frame = &lines->file.frames[stack->first_frame + i];
		const char *name = mt_lines_name(lines, frame);
		size_t bytes = strlen(name) + sizeof(":4294967295");
		char *text = mt_error_check_memory(malloc(bytes));

		snprintf(text, bytes, "%s:%" PRIu32, name, frame->line);
		site->frames[site->frames_count++] = text;
		to->names[to->names_count++] = text;
	}
	to->live_bytes += site->live_bytes;
	to->count++;
}

void mt_sites_of_lines(const struct mt_lines *lines, struct mt_sites *out)
{
	const struct mt_lines_head *head = &lines->file.head;
	uint32_t last = head->readings_count - 1;

	*out = (struct mt_sites){.rate_bytes = 1};
	out->list = mt_error_check_memory(calloc(head->stacks_count + 1u, sizeof(*out->list)));
	out->names = mt_error_check_memory(calloc(head->frames_count + 1u, sizeof(*out->names)));
	for (uint32_t i = 0; head->readings_count && i < head->stacks_count; i++) {
		const struct mt_lines_stack *stack = &lines->file.stacks[i];
		uint64_t bytes = last ? stack->bytes[0] : 0, count = last ? stack->first_count : 0;

		if (stack->bytes[last] <= bytes)
			continue;
		out->list[out->count].live_bytes = stack->bytes[last] - bytes;
		out->list[out->count].live_count = mt_sat_sub(stack->last_count, count);
		add_lines_site(lines, stack, out);
	}
}

enum mt_err mt_sites_collect(const struct mt_process *process, struct mt_sites *out,
			     struct mt_error_reason *why)
{
	struct mt_symbols *symbols;
	struct mt_stats_head head;
	struct mt_heap_profile file;
	enum mt_err error = request_profile(process, &head, why);

	if (!error)
		error = read_profile(process, &file, why);
	if (error)
		return error;
	if (!file.stacks_count && head.snapshot.prof_state == 1)
		error = mt_error_because(
			why, MT_ERR_NOT_AVAILABLE,
			"its heap profiler does not sample; switch it on: mtctl set %d prof=on",
			(int)process->pid);
	if (!error)
		error = mt_symbols_new(process, &symbols, why);
	if (!error) {
		mt_sites_read(&file, symbols, out);
		out->samples = head.snapshot.prof_state == 2;
		mt_symbols_free(symbols);
	}
	mt_heap_profile_free(&file);
	return error;
}

void mt_sites_free(struct mt_sites *sites)
{
	for (size_t i = 0; i < sites->names_count; i++)
		free(sites->names[i]);
	free(sites->names);
	free(sites->list);
	*sites = (struct mt_sites){0};
}

/* ---- the frame that names a site ---- */

/* Whether a frame is a wrapper of an allocation function. Words are whole names, prefixes the
 * beginning of one. */
static bool is_wrapper(const char *frame)
{
	static const char *const words[] = {
		"malloc",          "calloc",           "realloc",         "reallocarray",
		"memalign",        "aligned_alloc",    "posix_memalign",  "valloc",
		"pvalloc",         "strdup",           "__strdup",        "strndup",
		"__strndup",       "__libc_malloc",    "__libc_calloc",   "__libc_realloc",
		"__libc_memalign", "PyObject_Malloc",  "PyObject_Calloc", "PyObject_Realloc",
		"PyMem_Malloc",    "PyMem_Calloc",     "PyMem_Realloc",   "PyMem_RawMalloc",
		"PyMem_RawCalloc", "PyMem_RawRealloc",
	};
	static const char *const prefixes[] = {"_Znw",
					       "_Zna",
					       "operator new",
					       "_PyMem_",
					       "_PyObject_Malloc",
					       "_PyObject_Calloc",
					       "_PyObject_Realloc"};
	size_t length = strcspn(frame, " @");

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strlen(words[i]) == length && strncmp(frame, words[i], length) == 0)
			return true;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (strncmp(frame, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return false;
}

size_t mt_sites_first_frame(const struct mt_site *site)
{
	size_t first = 0;

	while (first + 1 < site->frames_count && is_wrapper(site->frames[first]))
		first++;
	return first;
}

const char *mt_sites_name(const struct mt_site *site)
{
	return site->frames_count ? site->frames[mt_sites_first_frame(site)] : NULL;
}

char *mt_sites_where(const struct mt_site *site)
{
	const char *name = mt_sites_name(site);
	size_t bytes = strlen(name) + (site->python ? strlen(site->python) : 0) + sizeof(", from ");
	char *text = mt_error_check_memory(malloc(bytes));

	/* a stack of Python alone has that line as its name */
	if (!site->python || strcmp(name, site->python) == 0)
		snprintf(text, bytes, "%s", name);
	else
		snprintf(text, bytes, "%s, from %s", name, site->python);
	return text;
}
