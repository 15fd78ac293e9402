/* heap/jemalloc_prof.c -- jemalloc's heap profiler: switched on and off, and asked for its profile.
 */
#include "heap/jemalloc_internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "core/services.h"
#include "core/log.h"
#include "core/thread.h"
#include "sys/atomic.h"
#include "sys/loader.h"
#include "sys/os.h"

/* What jemalloc calls in libc's stead. */
int mt_je_creat(const char *path, mode_t mode);

/* ---- the unwinder ---- */

/* The unwinder that jemalloc's heap profiler walks stacks with:
 * libgcc_s's _Unwind_Backtrace. It is not linked (a static one needs newer symbols of libc than the
 * oldest distribution we run on has, a shared one would be a DT_NEEDED) but loaded when the
 * profiler is first switched on. Never from inside jemalloc, which holds its init lock when it
 * first asks for a stack: until then, and while it may not be walked, a stack is empty.
 *
 * Three things that it does not survive by itself, each seen:
 *  - libgcc_s has a lock over its list of frames that were registered by hand (JIT compilers do).
 *    One that is held in the moment of a fork stays so for ever in the child, whose next C++
 *    exception hangs. Hence the gate, which fork closes.
 *  - Under that lock it calls malloc; a stack that is walked from there waits for a lock that its
 *    own thread holds. Hence is_inside_unwinder.
 *  - greenlet (gevent) copies pieces of stacks to and fro: above the frames of one that runs lies
 *    what others have left, and an address that leads nowhere is read all the same. Hence a walk
 *    goes through the code of loaded files alone, and ends at greenlet's. Whose code it is tells
 *    _dl_find_object, without a lock; if libc has none (before 2.35), there is no sampling: the
 *    unwinder itself would take the loader's lock then. */

#define GO_ON        0 /* _URC_NO_REASON */
#define END_OF_STACK 5 /* _URC_END_OF_STACK */
/* a walk takes microseconds; one that never ends must not stop a fork */
#define GATE_WAIT_NS (200 * MT_NS_PER_MS)
#define GATE_STEP_NS (MT_NS_PER_MS / 10)
/* jemalloc's frames below its caller take 600 to 1500 bytes */
#define LOOK_BYTES 2048u
/* aarch64 signs return addresses on the stack in the bits above (-mbranch-protection) */
#define ADDRESS_BITS     (((uintptr_t)1 << 48) - 1)
#define LOAD_WAIT_NS     (500 * MT_NS_PER_MS)
#define LOAD_STACK_BYTES (64u << 10)
#define LINES_MAX        10 /* of Python, of one stack */
#define WIPE_BYTES       1536u

/* glibc's struct dl_find_object, as far as it is read; newer than the oldest headers that we build
 * with. */
struct object {
	unsigned long long flags;
	uintptr_t from, to;
	const struct link_map *file;
	uint64_t more[16];
};

typedef int (*trace_fn)(void *context, void *argument);
typedef int (*walk_fn)(trace_fn trace, void *argument);
typedef uintptr_t (*address_fn)(void *context);
typedef int (*object_fn)(void *address, struct object *out);

/* What jemalloc calls in libgcc's stead. */
int mt_je__Unwind_Backtrace(trace_fn trace, void *argument);
uintptr_t mt_je__Unwind_GetIP(void *context);

/* Set once, `walk` last: release, pairs with the acquire of a walk. */
static _Atomic(walk_fn) walk;
static address_fn address_of;
static object_fn find_object;
static struct object unwinder;

static struct mt_thread loading; /* loads libgcc_s for the worker */

/* seq_cst both: either the walk sees the closed gate, or fork sees the walk. */
static _Atomic uint32_t walkers_count;
static _Atomic bool gate_closed;
static MT_TLS uint32_t own_walks; /* of this thread: a handler may fork in the middle of one */

/* Its code alone: addresses of its headers lie about on many a stack, since every walk through the
 * loaded objects, the loader's and ours, leaves those of the last one. */
static void narrow_to_code(struct object *object)
{
	const char *head = (const char *)object->from;
	const ElfW(Ehdr) *elf = (const void *)head;
	const ElfW(Phdr) *part = (const void *)(head + elf->e_phoff);

	for (int i = 0; i < elf->e_phnum; i++, part++)
		if (part->p_type == PT_LOAD && (part->p_flags & PF_X)) {
			object->from = object->file->l_addr + part->p_vaddr;
			object->to = object->from + part->p_memsz;
			return;
		}
}

static bool load_unwinder(void)
{
	walk_fn found = NULL;
	void *library;
	int probe = 0;

	/* From the library itself: what the program has bound the name to may be its own jump to
	 * it. */
	mt_loader_enter();
	library = dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_LOCAL);
	mt_loader_leave();
	if (!library)
		return false;
	*(void **)(void *)&found = mt_loader_symbol(library, "_Unwind_Backtrace");
	*(void **)(void *)&address_of = mt_loader_symbol(library, "_Unwind_GetIP");
	*(void **)(void *)&find_object = mt_loader_symbol(RTLD_DEFAULT, "_dl_find_object");
	if (!found || !address_of || !find_object ||
	    mt_os_read_own(&probe, &probe, sizeof(probe)) != sizeof(probe) ||
	    find_object((void *)(uintptr_t)found, &unwinder) != 0)
		return false;
	narrow_to_code(&unwinder);
	mt_store_release(&walk, found);
	return true;
}

static void *load_main(void *unused)
{
	(void)unused;
	mt_thread_mark_ours();
	(void)load_unwinder();
	mt_thread_reset(&loading);
	return NULL;
}

/* The worker must not wait behind a constructor, during which the loader is locked. In our own
 * constructor no other thread could load anything. */
static bool find_unwinder(void)
{
	uint64_t until = mt_os_now_ns() + LOAD_WAIT_NS;

	mt_interpreter_prepare_lines();
	if (mt_load_acquire(&walk))
		return true;
	if (!mt_thread_is_ours())
		return load_unwinder();
	(void)mt_thread_start(&loading, load_main, LOAD_STACK_BYTES);
	while (mt_thread_is_running(&loading) && mt_os_now_ns() < until)
		mt_os_sleep_ns(MT_NS_PER_MS);
	return mt_load_acquire(&walk) != NULL;
}

/* Where the walk itself begins is no return address: our own callers keep it on the stack. */
static bool points_into_unwinder(const uintptr_t *words, size_t count)
{
	uintptr_t begin = (uintptr_t)mt_load_relaxed(&walk);

	for (size_t i = 0; i < count; i++) {
		uintptr_t word = words[i] & ADDRESS_BITS;

		if (word >= unwinder.from && word < unwinder.to && word != begin)
			return true;
	}
	return false;
}

/* Whether a return address into the unwinder lies on the stack just above: then it is the unwinder
 * that allocates. An old word that was never overwritten costs one sample its stack, and so does a
 * kernel that no longer lets us look: past the page it stands on the stack may end. Not inlined:
 * its buffer must be gone while the stack is walked, on the smallest of stacks too. */
static __attribute__((noinline)) bool is_inside_unwinder(void)
{
	const uintptr_t *from = __builtin_frame_address(0);
	size_t page = mt_os_page_bytes();
	size_t here = page - (uintptr_t)from % page;
	uintptr_t beyond[LOOK_BYTES / sizeof(uintptr_t)];
	ssize_t got;

	if (here >= LOOK_BYTES)
		return points_into_unwinder(from, LOOK_BYTES / sizeof(*from));
	if (points_into_unwinder(from, here / sizeof(*from)))
		return true;
	got = mt_os_read_own((const char *)from + here, beyond, LOOK_BYTES - here);
	return got < 0 || points_into_unwinder(beyond, (size_t)got / sizeof(*beyond));
}

/* _greenlet.cpython-311-x86_64-linux-gnu.so; greenlet.so and the like before version 1. */
static bool is_greenlet(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	return strncmp(name, "_greenlet.", 10) == 0 || strncmp(name, "greenlet.", 9) == 0;
}

struct visit {
	trace_fn trace;
	void *argument;
	struct object last; /* where the frame before was: most often this one is there, too */
};

/* Whether what lies above a frame of this code is the rest of the stack. */
static bool leads_on(uintptr_t address, struct object *last)
{
	if (address >= last->from && address < last->to)
		return true;
	return find_object((void *)address, last) == 0 && !is_greenlet(last->file->l_name);
}

static int visit_frame(void *context, void *argument)
{
	struct visit *visit = argument;
	int answer = visit->trace(context, visit->argument);

	return answer == GO_ON && !leads_on(address_of(context), &visit->last) ? END_OF_STACK
									       : answer;
}

/* Wipes what the walk has left below: its return addresses would look like a walk to
 * is_inside_unwinder when a later call of malloc has them in the holes of its frames, each time in
 * a loop. It touches less than the walk did. */
static __attribute__((noinline)) void wipe_stack(void)
{
	unsigned char left[WIPE_BYTES];

	memset(left, 0, sizeof(left));
	__asm__ volatile("" : : "r"(left) : "memory");
}

/* The lines of Python come before the stack, as if they were frames: each has an address of its
 * own. An odd context is such an address. Not inlined: as above. */
static __attribute__((noinline)) int visit_lines(trace_fn trace, void *argument)
{
	uintptr_t lines[LINES_MAX];
	size_t count = mt_interpreter_lines(lines, LINES_MAX);
	int answer = GO_ON;

	for (size_t i = 0; i < count && answer == GO_ON; i++)
		answer = trace((void *)(lines[i] | 1), argument);
	return answer;
}

int mt_je__Unwind_Backtrace(trace_fn trace, void *argument)
{
	walk_fn found = mt_load_acquire(&walk);
	struct visit visit = {.trace = trace, .argument = argument};
	int answer = END_OF_STACK;

	if (!found)
		return answer;
	own_walks++;
	atomic_fetch_add(&walkers_count, 1);
	/* the lines need no unwinder */
	if (!atomic_load(&gate_closed) && visit_lines(trace, argument) == GO_ON &&
	    !is_inside_unwinder()) {
		answer = found(visit_frame, &visit);
		wipe_stack();
	}
	atomic_fetch_sub(&walkers_count, 1);
	own_walks--;
	return answer;
}

uintptr_t mt_je__Unwind_GetIP(void *context)
{
	uintptr_t line = (uintptr_t)context;

	return line & 1 ? line & ~(uintptr_t)1 : address_of(context);
}

void mt_jemalloc_prof_close_gate(void)
{
	uint64_t until;
	uint32_t count;

	if (!mt_load_relaxed(&walk))
		return;
	atomic_store(&gate_closed, true);
	until = mt_os_now_ns() + GATE_WAIT_NS;
	/* Polled, without a wake-up: the walk must stay cheap, and a fork is not. */
	while ((count = atomic_load(&walkers_count)) > own_walks && mt_os_now_ns() < until)
		(void)mt_os_futex_wait(&walkers_count, count, GATE_STEP_NS, MT_FUTEX_PRIVATE);
}

void mt_jemalloc_prof_open_gate(void)
{
	atomic_store(&gate_closed, false);
}

/* A walk that had not ended in time does not exist here: waiting for it would cost each further
 * fork its whole wait. */
void mt_jemalloc_prof_open_gate_in_child(void)
{
	atomic_store(&walkers_count, own_walks);
	mt_thread_reset(&loading);
	mt_jemalloc_prof_open_gate();
}

/* ---- the profiler ---- */

/* The file that we dump into; any other is a dump that the program has asked for itself. */
static char own_path[512];
static _Atomic bool dumping;

static bool ask_flag(const char *name)
{
	bool flag = false;
	size_t bytes = sizeof(flag);

	return je_mallctl(name, &flag, &bytes, NULL, 0) == 0 && flag;
}

static enum mt_profiler_state prof_state(void)
{
	if (!ask_flag("opt.prof"))
		return MT_PROFILER_NONE;
	return ask_flag("prof.active") ? MT_PROFILER_SAMPLES : MT_PROFILER_READY;
}

static enum mt_err prof_sample(bool on)
{
	if (!ask_flag("opt.prof"))
		return MT_ERR_NOT_AVAILABLE;
	if (on && !find_unwinder()) {
		mt_log(MT_LOG_WARN, "the heap profiler cannot walk stacks: it needs libgcc_s.so.1, "
				    "glibc 2.35 and process_vm_readv");
		return MT_ERR_SYSTEM;
	}
	return je_mallctl("prof.active", NULL, NULL, &on, sizeof(on)) == 0 ? MT_ERR_OK
									   : MT_ERR_SYSTEM;
}

/* jemalloc would take whatever lies under that name, a link too, and for all to read. */
int mt_je_creat(const char *path, mode_t mode)
{
	int fd;

	if (!mt_load_acquire(&dumping) || strcmp(path, own_path) != 0)
		return creat(path, mode);
	fd = mt_os_open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? -1 : fd;
}

/* Adds what the lines of Python in the stacks are. */
static bool add_lines(const char *path)
{
	struct stat seen;
	int fd = mt_os_open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0);
	bool done = fd >= 0 && mt_os_fstat(fd, &seen) == 0 &&
		    mt_interpreter_write_lines(fd, (uint64_t)seen.st_size);

	if (fd >= 0)
		mt_os_close(fd);
	return done;
}

static enum mt_err prof_dump(const char *path)
{
	const char *name = own_path;
	int code;

	if (strlen(path) >= sizeof(own_path))
		return MT_ERR_INVALID;
	memcpy(own_path, path, strlen(path) + 1);
	mt_store_release(&dumping, true);
	code = je_mallctl("prof.dump", NULL, NULL, &name, sizeof(name));
	mt_store_release(&dumping, false);
	if (code == ENOENT)
		return MT_ERR_NOT_AVAILABLE;
	mt_interpreter_prepare_lines(); /* of a Python that came later */
	return code == 0 && add_lines(path) ? MT_ERR_OK : MT_ERR_SYSTEM;
}

const struct mt_heap_profiler mt_jemalloc_profiler = {
	.state = prof_state, .sample = prof_sample, .dump = prof_dump};

/* Looked for in the text: a process that does not want it must not even pay for asking jemalloc. */
void mt_jemalloc_prof_begin(const char *conf)
{
	if (strstr(conf, "prof:true") && prof_state() == MT_PROFILER_SAMPLES &&
	    prof_sample(true) != MT_ERR_OK)
		(void)prof_sample(false);
}

/* ---- its mathematics ---- */

/* Log spaces the profiler's samples; exp and round scale what it counted. Exact to a few units in
 * the last place, which is enough for both. */

#define LN2 0x1.62e42fefa39efp-1
/* its low bits are 0: times a small whole number it is exact */
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW  0x1.a39ef35793c76p-33
#define SQRT2    0x1.6a09e667f3bcdp+0
/* above it a double overflows, below its negative only denormals are left */
#define EXP_MOST 709.78
/* |s| <= 0.1716: the first term left out is below 1e-19 */
#define LOG_TERMS     23
#define EXP_TERMS     14 /* |rest| <= ln2 / 2: likewise */
#define FRACTION_BITS 52
#define BIAS          1023

static double two_to(int64_t power)
{
	uint64_t bits = (uint64_t)(power + BIAS) << FRACTION_BITS;
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* ln(m * 2^k) = k ln 2 + 2 artanh((m - 1) / (m + 1)). jemalloc asks for the logarithm of normal
 * positive numbers alone. */
double mt_je_log(double x)
{
	uint64_t bits;
	int64_t power;
	double s, square, sum = 0;

	memcpy(&bits, &x, sizeof(bits));
	power = (int64_t)(bits >> FRACTION_BITS) - BIAS;
	x /= two_to(power);
	if (x > SQRT2) {
		x /= 2;
		power++;
	}
	s = (x - 1) / (x + 1);
	square = s * s;
	for (int term = LOG_TERMS; term >= 3; term -= 2)
		sum = (sum + 1.0 / term) * square;
	return (double)power * LN2_HIGH + (2 * s + (2 * s * sum + (double)power * LN2_LOW));
}

double mt_je_exp(double x)
{
	double power, rest, sum = 1;

	if (x > EXP_MOST)
		return __builtin_inf();
	if (x < -EXP_MOST + 2)
		return 0;
	power = mt_je_round(x / LN2);
	rest = (x - power * LN2_HIGH) - power * LN2_LOW;
	for (int term = EXP_TERMS; term >= 1; term--)
		sum = 1 + sum * rest / term;
	return sum * two_to((int64_t)power - 1) * 2;
}

/* Halves go away from zero; from 2^52 on there are none. */
double mt_je_round(double x)
{
	double size = x < 0 ? -x : x;
	double whole;

	if (!(size < (double)(1ULL << FRACTION_BITS)))
		return x;
	whole = (double)(int64_t)size;
	if (size - whole >= 0.5)
		whole += 1;
	return x < 0 ? -whole : whole;
}
