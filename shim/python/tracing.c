#include "python/python_internal.h"

#include <string.h>
#include <sys/mman.h>

#include "core/stats_layout.h"
#include "python/cpython.h"
#include "python/objects.h"
#include "python/python.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/os.h"

#define OLDEST_MINOR 9
/* An object that the look allocates: it is traced as long as the look's own tracing goes on. The
 * module keeps it, so that it ends with its interpreter. */
#define MARK       "_mtshim_look"
#define MARK_BYTES 40
/* Direct-mapped caches for the time of one reading: tracemalloc uses one object for equal stacks,
 * and mostly one for equal file names. */
#define STACK_CACHE 4096u
#define NAME_CACHE  256u
/* calls of the layer in a forked child, a power of two, before it asks for the end of tracing */
#define FIRST_CALL 64u

enum mt_lines_outcome mt_tracing_find(void)
{
	if (!mt_cpython_find() || !mt_cpython.is_whole || !mt_cpython.PyInterpreterState_Get)
		return MT_LINES_NO_TRACEMALLOC;
	if (mt_cpython._Py_DecRefShared)
		return MT_LINES_FREE_THREADED;
	return mt_cpython_minor() >= OLDEST_MINOR ? MT_LINES_DONE : MT_LINES_NO_TRACEMALLOC;
}

/* The head of the list is the interpreter that was made last. */
bool mt_tracing_has_subinterpreters(void)
{
	return mt_cpython.PyInterpreterState_Head() != mt_cpython.PyInterpreterState_Main();
}

bool mt_tracing_is_here(void)
{
	return mt_cpython.PyInterpreterState_Get() == mt_cpython.PyInterpreterState_Main();
}

/* ---- the layer before tracemalloc ---- */

struct layer {
	struct mt_python_allocator before;      /* what served the domain before the look */
	struct mt_python_allocator tracemalloc; /* which calls `before` */
};
static struct layer layers[3];
static struct mt_python_allocator raw_before;
/* Threads with the GIL read it for each block. Whatever value they see is right: no ordering. */
static _Atomic bool is_bypassed;
/* Changed and read under the GIL, but for the fork handler. */
static bool is_placed;    /* tracemalloc traces, or would if it were not bypassed, for the shim */
static bool is_inherited; /* by a forked child, which shall stop it */
static uint32_t inherited_calls; /* of the layer in the child */

/* A pending call, in a forked child. */
static int stop_inherited(void *unused)
{
	(void)unused;
	if (is_inherited && mt_tracing_is_here())
		mt_tracing_stop();
	return 0;
}

/* tracemalloc costs a look-up for each new object, bypassed or not, until a forked child stops it.
 * The child's Python asks for that by itself, from inside a call of the layer: it holds the GIL,
 * and has made its locks again. Before it knows its new main thread the pending call may be
 * overlooked, and its queue may be full: so it asks again, ever more rarely. */
static MT_COLD const struct mt_python_allocator *bypassed(const struct layer *layer)
{
	if (is_inherited && ++inherited_calls >= FIRST_CALL &&
	    !(inherited_calls & (inherited_calls - 1)))
		(void)mt_python_queue(stop_inherited, NULL);
	return &layer->before;
}

static inline const struct mt_python_allocator *next_of(const void *context)
{
	const struct layer *layer = context;

	return mt_load_relaxed(&is_bypassed) ? bypassed(layer) : &layer->tracemalloc;
}

static void *layer_malloc(void *context, size_t size)
{
	const struct mt_python_allocator *next = next_of(context);

	return next->malloc(next->context, size);
}

static void *layer_calloc(void *context, size_t count, size_t size)
{
	const struct mt_python_allocator *next = next_of(context);

	return next->calloc(next->context, count, size);
}

static void *layer_realloc(void *context, void *block, size_t size)
{
	const struct mt_python_allocator *next = next_of(context);

	return next->realloc(next->context, block, size);
}

static void layer_free(void *context, void *block)
{
	const struct mt_python_allocator *next = next_of(context);

	next->free(next->context, block);
}

static void place(int domain)
{
	const struct mt_python_allocator ours = {
		.context = &layers[domain],
		.malloc = layer_malloc,
		.calloc = layer_calloc,
		.realloc = layer_realloc,
		.free = layer_free,
	};

	mt_cpython.PyMem_GetAllocator(domain, &layers[domain].tracemalloc);
	mt_cpython.PyMem_SetAllocator(domain, &ours);
}

static bool is_first(int domain)
{
	struct mt_python_allocator now;

	mt_cpython.PyMem_GetAllocator(domain, &now);
	return now.malloc == layer_malloc;
}

/* Whether tracemalloc may restore the allocators from before its start: no other library has put
 * itself before the layer. */
static bool is_removable(void)
{
	struct mt_python_allocator raw;

	mt_cpython.PyMem_GetAllocator(MT_PYTHON_DOMAIN_RAW, &raw);
	return is_first(MT_PYTHON_DOMAIN_MEM) && is_first(MT_PYTHON_DOMAIN_OBJ) &&
	       raw.malloc == raw_before.malloc && raw.context == raw_before.context;
}

void mt_tracing_bypass(void)
{
	mt_store_relaxed(&is_bypassed, true);
}

void mt_tracing_fork_child(void)
{
	mt_tracing_bypass();
	is_inherited = is_placed;
	inherited_calls = 0;
}

/* ---- helpers: each accepts NULL; all but call_function return with no Python error set ---- */

/* The exception that was set when the call began. */
struct kept_error {
	void *type, *value, *trace;
};

static struct kept_error keep_error(void)
{
	struct kept_error kept;

	mt_cpython.PyErr_Fetch(&kept.type, &kept.value, &kept.trace);
	return kept;
}

static void restore_error(const struct kept_error *kept)
{
	mt_cpython.PyErr_Restore(kept->type, kept->value, kept->trace);
}

/* Clears the error that is set, if any, and returns what it means for the look. */
static enum mt_lines_outcome clear_error(void)
{
	bool lacks_memory = mt_cpython.PyErr_Occurred() &&
			    mt_cpython.PyErr_ExceptionMatches(*mt_cpython.PyExc_MemoryError);

	mt_cpython_clear_error();
	return lacks_memory ? MT_LINES_NO_MEMORY : MT_LINES_FAILED;
}

/* Not through builtins.__import__, which a program may replace. */
static void *find_module(void)
{
	return mt_cpython_checked(
		mt_cpython.PyImport_ImportModuleLevel("_tracemalloc", NULL, NULL, NULL, 0));
}

/* Leaves the error set, for the caller to read. */
static void *call_function(void *module, const char *name)
{
	void *function = mt_cpython_attribute(module, name);
	void *result = function ? mt_cpython.PyObject_CallObject(function, NULL) : NULL;

	mt_cpython_release(function);
	return result;
}

static uint64_t call_for_number(void *module, const char *name)
{
	void *number = mt_cpython_checked(call_function(module, name));
	unsigned long long value = number ? mt_cpython.PyLong_AsUnsignedLongLong(number) : 0;

	mt_cpython_release(number);
	if (!mt_cpython.PyErr_Occurred())
		return value;
	mt_cpython_clear_error();
	return 0;
}

static bool is_tracing(void *module)
{
	void *result = mt_cpython_checked(call_function(module, "is_tracing"));
	bool is = result && mt_cpython.PyObject_IsTrue(result) > 0;

	mt_cpython_release(result);
	return is;
}

static void set_mark(void *module, void *value)
{
	if (mt_cpython.PyObject_SetAttrString(module, MARK, value) != 0)
		mt_cpython_clear_error();
}

/* Whether tracemalloc traces since the look has begun: the program has neither stopped nor cleared
 * it, and the interpreter is the same. */
static bool is_unbroken(void *module)
{
	void *mark = is_tracing(module) ? mt_cpython_attribute(module, MARK) : NULL;
	void *function = mark ? mt_cpython_attribute(module, "_get_object_traceback") : NULL;
	void *found = function ? mt_cpython_checked(mt_cpython.PyObject_CallFunctionObjArgs(
					 function, mark, NULL))
			       : NULL;
	bool is = found && found != mt_cpython._Py_NoneStruct;

	mt_cpython_release(found);
	mt_cpython_release(function);
	mt_cpython_release(mark);
	return is;
}

/* ---- start and stop ---- */

/* The domain RAW is as it was before another thread can see it, or within a few instructions: its
 * users need no GIL. CPython's own start has the same gap. */
static enum mt_lines_outcome start_with(void *module, uint32_t depth)
{
	void *function = mt_cpython_attribute(module, "start");
	void *result = NULL, *mark;

	for (int domain = MT_PYTHON_DOMAIN_MEM; domain <= MT_PYTHON_DOMAIN_OBJ; domain++)
		mt_cpython.PyMem_GetAllocator(domain, &layers[domain].before);
	mt_cpython.PyMem_GetAllocator(MT_PYTHON_DOMAIN_RAW, &raw_before);
	if (function)
		result = mt_cpython.PyObject_CallFunction(function, "i", (int)depth);
	mt_cpython_release(function);
	if (!result)
		return clear_error();
	mt_cpython_release(result);
	mt_cpython.PyMem_SetAllocator(MT_PYTHON_DOMAIN_RAW, &raw_before);
	mt_store_relaxed(&is_bypassed, false);
	place(MT_PYTHON_DOMAIN_MEM);
	place(MT_PYTHON_DOMAIN_OBJ);
	is_placed = true;
	mark = mt_cpython_checked(mt_cpython.PyBytes_FromStringAndSize(NULL, MARK_BYTES));
	if (mark)
		set_mark(module, mark);
	mt_cpython_release(mark);
	return MT_LINES_DONE;
}

/* Stops what is the shim's own. If other hooks lie before the layer it only empties the tables. */
static void stop_with(void *module)
{
	mt_tracing_bypass();
	set_mark(module, mt_cpython._Py_NoneStruct);
	is_inherited = false;
	if (!is_removable()) {
		mt_cpython_release(mt_cpython_checked(call_function(module, "clear_traces")));
		return;
	}
	mt_cpython_release(mt_cpython_checked(call_function(module, "stop")));
	is_placed = false;
}

/* A look may have left tracemalloc bypassed: under foreign hooks, or in the parent of this process.
 * Returns false if it still cannot be removed. */
static bool remove_leftover(void *module)
{
	if (!is_placed)
		return true;
	if (is_tracing(module) && mt_load_relaxed(&is_bypassed))
		stop_with(module);
	else
		is_placed = is_inherited = false; /* the program has stopped it */
	return !is_placed;
}

enum mt_lines_outcome mt_tracing_start(uint32_t *depth, bool *out_is_own)
{
	struct kept_error kept = keep_error();
	void *module = find_module();
	enum mt_lines_outcome outcome = MT_LINES_NO_TRACEMALLOC;

	*out_is_own = false;
	if (module && mt_tracing_has_subinterpreters()) {
		outcome = MT_LINES_SUBINTERPRETERS;
	} else if (module && !remove_leftover(module)) {
		outcome = MT_LINES_HOOKED;
	} else if (module && is_tracing(module)) {
		*out_is_own = true;
		*depth = (uint32_t)call_for_number(module, "get_traceback_limit");
		outcome = MT_LINES_DONE;
	} else if (module) {
		outcome = start_with(module, *depth);
	}
	mt_cpython_release(module);
	restore_error(&kept);
	return outcome;
}

/* The program has stopped, cleared or restarted tracemalloc: if it traces, it shall. */
static void leave(void *module)
{
	is_placed = is_inherited = false;
	if (module && is_tracing(module))
		mt_store_relaxed(&is_bypassed, false);
}

void mt_tracing_stop(void)
{
	struct kept_error kept = keep_error();
	void *module = find_module();

	if (module && is_unbroken(module))
		stop_with(module);
	else
		leave(module);
	mt_cpython_release(module);
	restore_error(&kept);
}

/* ---- reading ---- */

static void measure(void *module, struct mt_tracing_size *out)
{
	out->tables_bytes = module ? call_for_number(module, "get_tracemalloc_memory") : 0;
	out->blocks_count = out->tables_bytes / MT_LINES_TABLE_BYTES;
}

void mt_tracing_measure(struct mt_tracing_size *out)
{
	struct kept_error kept = keep_error();
	void *module = find_module();

	measure(module, out);
	mt_cpython_release(module);
	restore_error(&kept);
}

/* For the time of one reading, in which the objects live. */
struct reader {
	struct {
		const void *stack;
		uint32_t index;
	} stacks[STACK_CACHE];
	struct {
		const void *name;
		uint32_t place;
	} names[NAME_CACHE];
};
static struct reader reader; /* under the GIL */

static size_t cache_slot(const void *object, size_t count)
{
	return ((uintptr_t)object >> 4) * 0x9e3779b97f4a7c15ull >> 40 & (count - 1);
}

static uint32_t place_of_name(void *name)
{
	size_t slot = cache_slot(name, NAME_CACHE);
	intptr_t bytes = 0;
	const char *text;

	if (reader.names[slot].name != name) {
		text = mt_cpython.PyUnicode_AsUTF8AndSize(name, &bytes);
		if (!text) /* not UTF-8 */
			mt_cpython_clear_error();
		reader.names[slot].place =
			mt_tracing_table_name(text ? text : "?", text ? (size_t)bytes : 1);
		reader.names[slot].name = name;
	}
	return reader.names[slot].place;
}

/* A stack is a tuple of (file name, line), innermost first. */
static uint32_t read_stack(void *stack)
{
	struct mt_lines_frame frames[MT_LINES_DEPTH_MAX];
	intptr_t count = mt_cpython.PyTuple_Size(stack);

	if (count > (intptr_t)MT_LINES_DEPTH_MAX)
		count = MT_LINES_DEPTH_MAX;
	for (intptr_t i = 0; i < count; i++) {
		void *frame = mt_cpython.PyTuple_GetItem(stack, i);
		void *name = frame ? mt_cpython.PyTuple_GetItem(frame, 0) : NULL;
		void *line = frame ? mt_cpython.PyTuple_GetItem(frame, 1) : NULL;

		if (!name || !line)
			return MT_LINE_TABLE_NONE;
		frames[i].name = place_of_name(name);
		frames[i].line = frames[i].name == MT_NAME_TABLE_REST
					 ? 0
					 : (uint32_t)mt_cpython.PyLong_AsUnsignedLongLong(line);
	}
	return count > 0 ? mt_tracing_table_stack(frames, (uint32_t)count) : MT_LINE_TABLE_NONE;
}

static uint32_t index_of_stack(void *stack)
{
	size_t slot = cache_slot(stack, STACK_CACHE);

	if (reader.stacks[slot].stack != stack) {
		reader.stacks[slot].index = read_stack(stack);
		reader.stacks[slot].stack = stack;
	}
	return reader.stacks[slot].index;
}

/* A reading that fails begins nothing. A trace is a tuple of (domain, bytes, stack, ...). */
static void add_traces(void *list, uint32_t reading, uint64_t *out_count)
{
	intptr_t count = mt_cpython.PyList_Size(list);

	memset(&reader, 0, sizeof(reader));
	mt_tracing_table_begin_reading(reading);
	for (intptr_t i = 0; i < count; i++) {
		void *trace = mt_cpython.PyList_GetItem(list, i);
		void *bytes = trace ? mt_cpython.PyTuple_GetItem(trace, 1) : NULL;
		void *stack = trace ? mt_cpython.PyTuple_GetItem(trace, 2) : NULL;

		if (bytes && stack)
			mt_tracing_table_add(index_of_stack(stack),
					     mt_cpython.PyLong_AsUnsignedLongLong(bytes));
	}
	if (mt_cpython.PyErr_Occurred())
		mt_cpython_clear_error();
	*out_count = count > 0 ? (uint64_t)count : 0;
}

/* Without a collection meanwhile: each of the many new tuples would count for one. */
static enum mt_lines_outcome read_traces(void *module, uint32_t reading, uint64_t *out_count)
{
	bool was_enabled =
		mt_cpython.PyGC_Disable && mt_cpython.PyGC_Enable && mt_cpython.PyGC_Disable();
	void *list = call_function(module, "_get_traces");
	enum mt_lines_outcome outcome = list ? MT_LINES_DONE : clear_error();

	if (list)
		add_traces(list, reading, out_count);
	mt_cpython_release(list);
	if (was_enabled)
		(void)mt_cpython.PyGC_Enable();
	return outcome;
}

static enum mt_lines_outcome check_size(void *module, bool is_own, uint64_t room_bytes)
{
	struct mt_tracing_size size;

	measure(module, &size);
	if (is_own && size.blocks_count > MT_LINES_OWN_BLOCKS_MAX)
		return MT_LINES_TOO_MANY;
	return size.blocks_count * MT_LINES_READ_BYTES > room_bytes ? MT_LINES_NEAR_LIMIT
								    : MT_LINES_DONE;
}

enum mt_lines_outcome mt_tracing_read(bool is_own, uint32_t reading, uint64_t room_bytes,
				      uint64_t *out_blocks_count)
{
	struct kept_error kept = keep_error();
	void *module = find_module();
	enum mt_lines_outcome outcome = MT_LINES_CLEARED;

	*out_blocks_count = 0;
	if (module && (is_own ? is_tracing(module) : is_unbroken(module)))
		outcome = check_size(module, is_own, room_bytes);
	if (outcome == MT_LINES_DONE)
		outcome = read_traces(module, reading, out_blocks_count);
	mt_cpython_release(module);
	restore_error(&kept);
	return outcome;
}

/* ---- the table ---- */

#define STACK_SLOT_BITS 16
_Static_assert(2 * MT_LINES_STACKS_MAX <= 1u << STACK_SLOT_BITS, "half of the slots stay empty");

struct table {
	struct mt_lines_stack stacks[MT_LINES_STACKS_MAX];
	struct mt_lines_frame frames[MT_LINES_FRAMES_MAX];
	struct mt_name_table names;
	uint32_t stack_slots[1u << STACK_SLOT_BITS]; /* index plus one; 0: empty */
	uint32_t stacks_count, frames_count;
	uint32_t reading;
	uint64_t left_out_bytes, left_out_count; /* of the last reading */
};
static struct table *table;

bool mt_tracing_table_map(void)
{
	void *area = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (area == MAP_FAILED)
		return false;
	/* a child could not unmap it */
	(void)mt_raw_syscall(SYS_madvise, area, sizeof(*table), MADV_DONTFORK);
	table = area;
	return true;
}

void mt_tracing_table_unmap(void)
{
	if (table)
		munmap(table, sizeof(*table));
	table = NULL;
}

uint32_t mt_tracing_table_name(const char *text, size_t bytes)
{
	return mt_tracing_name_add(&table->names, text, bytes);
}

static uint32_t add_stack(const struct mt_lines_frame *frames, uint32_t count, uint32_t *slot)
{
	struct mt_lines_stack *stack = &table->stacks[table->stacks_count];

	if (table->stacks_count == MT_LINES_STACKS_MAX ||
	    count > MT_LINES_FRAMES_MAX - table->frames_count)
		return MT_LINE_TABLE_NONE;
	stack->first_frame = table->frames_count;
	mt_assert(table->stacks_count < MT_LINES_STACKS_MAX);
	stack->frames_count = count;
	memcpy(table->frames + table->frames_count, frames, count * sizeof(*frames));
	table->frames_count += count;
	mt_assert(table->frames_count <= MT_LINES_FRAMES_MAX);
	*slot = ++table->stacks_count;
	return *slot - 1;
}

static bool is_stack(const struct mt_lines_stack *stack, const struct mt_lines_frame *frames,
		     uint32_t count)
{
	return stack->frames_count == count &&
	       memcmp(table->frames + stack->first_frame, frames, count * sizeof(*frames)) == 0;
}

uint32_t mt_tracing_table_stack(const struct mt_lines_frame *frames, uint32_t count)
{
	uint32_t slot = mt_tracing_name_slot(
		mt_stats_checksum(MT_CHECKSUM_START, frames, count * sizeof(*frames)),
		STACK_SLOT_BITS);

	for (;; slot = (slot + 1) & ((1u << STACK_SLOT_BITS) - 1)) {
		uint32_t seen = table->stack_slots[slot];

		if (!seen)
			return add_stack(frames, count, &table->stack_slots[slot]);
		mt_assert(seen <= table->stacks_count);
		if (is_stack(&table->stacks[seen - 1], frames, count))
			return seen - 1;
	}
}

void mt_tracing_table_begin_reading(uint32_t reading)
{
	table->reading = reading;
	table->left_out_bytes = 0;
	table->left_out_count = 0;
	for (uint32_t i = 0; i < table->stacks_count; i++)
		table->stacks[i].last_count = 0;
}

void mt_tracing_table_add(uint32_t stack, uint64_t bytes)
{
	if (stack == MT_LINE_TABLE_NONE) {
		table->left_out_bytes += bytes;
		table->left_out_count++;
		return;

		mt_assert(stack < table->stacks_count);
	}
	table->stacks[stack].bytes[table->reading] += bytes;
	table->stacks[stack].last_count++;
	table->stacks[stack].first_count += table->reading == 0;
}

static uint32_t padded_names_bytes(void)
{
	return (table->names.bytes + 7u) & ~7u;
}

void mt_tracing_table_pieces(struct mt_line_table_piece out[3])
{
	out[0] = (struct mt_line_table_piece){table->stacks,
					      table->stacks_count * sizeof(*table->stacks)};
	out[1] = (struct mt_line_table_piece){table->frames,
					      table->frames_count * sizeof(*table->frames)};
	out[2] = (struct mt_line_table_piece){table->names.text, padded_names_bytes()};
}

void mt_tracing_table_describe(struct mt_lines_head *out)
{
	struct mt_line_table_piece pieces[3];

	out->content_sum = MT_CHECKSUM_START;
	if (!table)
		return;
	mt_tracing_table_pieces(pieces);
	for (int i = 0; i < 3; i++)
		out->content_sum =
			mt_stats_checksum(out->content_sum, pieces[i].from, pieces[i].bytes);
	out->stacks_count = table->stacks_count;
	out->frames_count = table->frames_count;
	out->names_bytes = padded_names_bytes();
	out->left_out_bytes = table->left_out_bytes;
	out->left_out_count = table->left_out_count;
}

void mt_tracing_table_fork_child(void)
{
	table = NULL;
}

/* ---- name table ---- */

#define SLOTS (1u << MT_NAME_TABLE_SLOT_BITS)
_Static_assert(2 * MT_NAME_TABLE_COUNT_MAX <= SLOTS, "a search soon meets an empty slot");

/* The last word of the text is filled with NULs in the file of a look. */
static bool has_room(const struct mt_name_table *names, size_t bytes)
{
	return names->count < MT_NAME_TABLE_COUNT_MAX &&
	       bytes + 1 + sizeof(uint64_t) <= sizeof(names->text) - names->bytes;
}

static uint32_t add(struct mt_name_table *names, const char *name, size_t bytes)
{
	uint32_t offset = names->bytes;

	memcpy(names->text + offset, name, bytes);
	names->bytes += (uint32_t)bytes + 1;
	names->count++;
	mt_assert(names->count <= MT_NAME_TABLE_COUNT_MAX && names->bytes <= sizeof(names->text));
	return offset;
}

uint32_t mt_tracing_name_add(struct mt_name_table *names, const char *name, size_t bytes)
{
	uint64_t sum = MT_CHECKSUM_START;
	uint32_t slot, searched = 0;

	if (!names->count)
		(void)add(names, MT_LINES_REST, sizeof(MT_LINES_REST) - 1);
	bytes = strnlen(name, bytes);
	for (size_t i = 0; i < bytes; i++)
		sum = (sum ^ (unsigned char)name[i]) * 0x100000001b3ull;
	for (slot = mt_tracing_name_slot(sum, MT_NAME_TABLE_SLOT_BITS); names->slots[slot];
	     slot = (slot + 1) & (SLOTS - 1)) {
		const char *seen = names->text + names->slots[slot] - 1;

		if (strncmp(seen, name, bytes) == 0 && !seen[bytes])
			return names->slots[slot] - 1;
		mt_assert(++searched < SLOTS);
	}
	(void)searched;
	if (!has_room(names, bytes))
		return MT_NAME_TABLE_REST;
	names->slots[slot] = add(names, name, bytes) + 1;
	return names->slots[slot] - 1;
}
