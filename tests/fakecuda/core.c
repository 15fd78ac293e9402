/* core.c -- the one lock, the settings, and what happens at the entry of every call. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

struct fake_settings fake_settings;
struct fake_device fake_devices[FAKE_DEVICE_MAX];
struct fakecuda_ledger fake_ledger;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool is_initialised; /* cuInit was here */
static atomic_bool is_forked;      /* a child: its parent's driver is not for it */
static atomic_bool is_ended;
static atomic_bool aborts;

void fake_lock(void)
{
	pthread_mutex_lock(&lock);
}

void fake_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/* For pthread_cond_wait, in stream.c alone. */
pthread_mutex_t *fake_mutex(void);
pthread_mutex_t *fake_mutex(void)
{
	return &lock;
}

static uint64_t number(const char *name, uint64_t otherwise, uint64_t most)
{
	const char *text = getenv(name);
	char *end;
	unsigned long long value;

	if (text == NULL || *text == '\0')
		return otherwise;
	value = strtoull(text, &end, 10);
	if (*end != '\0' || value > most) {
		fprintf(stderr, "fakecuda: %s=%s is not understood\n", name, text);
		return otherwise;
	}
	return value;
}

static void fork_child(void)
{
	/* Another thread may have held it; who asks for the ledger in the child, or ends a thread
	 * there, must not wait for ever. */
	pthread_mutex_init(&lock, NULL);
	/* As with a real driver only a process that has used it is lost to its children. */
	if (atomic_load(&is_initialised))
		atomic_store(&is_forked, true);
}

/* At the first call would be too late: glibc runs no handler that is registered while a fork is
 * under way. */
__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, fork_child);
}

static void configure(void)
{
	const char *text;

	fake_settings.devices = (int)number("FAKECUDA_DEVICES", 1, FAKE_DEVICE_MAX);
	fake_settings.memory_bytes = number("FAKECUDA_MEMORY_MB", 1024, 1 << 20) << 20;
	fake_settings.other_bytes = number("FAKECUDA_OTHER_MB", 0, 1 << 20) << 20;
	fake_settings.granularity = number("FAKECUDA_GRANULARITY", 2 << 20, 1 << 30);
	if (fake_settings.granularity < 512)
		fake_settings.granularity = 512;
	fake_settings.version = (int)number("FAKECUDA_VERSION", (uint64_t)fake_built_version,
					    (uint64_t)fake_built_version);
	fake_settings.reuse = number("FAKECUDA_REUSE", 0, 1) != 0;
	fake_settings.free_waits = (int)number("FAKECUDA_FREE_WAITS", 1, 2);
	fake_settings.green_seen = number("FAKECUDA_GREEN_SEEN", 1, 1) != 0;
	fake_settings.ledger_path = getenv("FAKECUDA_LEDGER");
	atomic_store(&aborts, number("FAKECUDA_ABORT", 0, 1) != 0);
	text = getenv("FAKECUDA_SHARED");
	if (text != NULL)
		fake_share(text);
	text = getenv("FAKECUDA_LATENCY_US");
	if (text != NULL)
		fake_inject_order(text, true);
	text = getenv("FAKECUDA_FAIL");
	if (text != NULL)
		fake_inject_order(text, false);
}

void fake_configure(void)
{
	pthread_once(&once, configure);
}

bool fake_device_is(int device)
{
	return device >= 0 && device < fake_settings.devices;
}

static int check(int needs)
{
	if (atomic_load(&is_ended))
		return DEINITIALIZED;
	if (needs == FAKE_ANY)
		return OK;
	if (atomic_load(&is_forked) || !atomic_load(&is_initialised))
		return NOT_INITIALIZED;
	return fake_thread.is_worker ? NOT_PERMITTED : OK;
}

int fake_enter(enum fake_fn fn, struct CUctx_st **context)
{
	const int needs = fake_rows[fn].needs;
	struct CUctx_st *current = NULL;
	int result;

	fake_configure();
	result = fake_inject(fn);
	if (result == OK)
		result = check(needs);
	if (result != OK)
		return result;
	fake_lock();
	if (needs & FAKE_CTX) {
		fake_thread_watch();
		if (fake_thread.depth == 0)
			result = INVALID_CONTEXT;
		else if ((current = fake_current()) == NULL)
			result = CONTEXT_IS_DESTROYED;
		else
			result = current->root->sticky;
	}
	if (result == OK && (needs & FAKE_UNSAFE) && fake_capture_forbids(true))
		result = CAPTURE_UNSUPPORTED;
	if (result != OK)
		return fake_leave(result);
	if (context != NULL)
		*context = current;
	return OK;
}

int fake_leave(int result)
{
	fake_unlock();
	return result;
}

void fake_misuse(struct CUctx_st *context, const char *what, uint64_t address)
{
	fake_ledger.misuses++;
	if (atomic_load(&aborts)) {
		fprintf(stderr, "fakecuda: %s touches %#llx, which is not there for it\n", what,
			(unsigned long long)address);
		abort();
	}
	if (context->root->sticky == OK)
		context->root->sticky = ILLEGAL_ADDRESS;
}

int cuInit(unsigned int flags)
{
	int result;

	fake_configure();
	result = fake_inject(FN_cuInit);
	if (result == OK && atomic_load(&is_ended))
		result = DEINITIALIZED;
	if (result == OK && atomic_load(&is_forked))
		result = NOT_INITIALIZED;
	if (result == OK && flags != 0)
		result = INVALID_VALUE;
	if (result != OK)
		return result;
	if (fake_settings.devices == 0)
		return 100; /* CUDA_ERROR_NO_DEVICE */
	atomic_store(&is_initialised, true);
	return OK;
}

int cuDriverGetVersion(int *version)
{
	const int result = fake_enter(FN_cuDriverGetVersion, NULL);

	if (result != OK)
		return result;
	if (version == NULL)
		return fake_leave(INVALID_VALUE);
	*version = fake_settings.version;
	return fake_leave(OK);
}

FAKE_EXPORT void fakecuda_deinitialize(void);
void fakecuda_deinitialize(void)
{
	atomic_store(&is_ended, true);
}

FAKE_EXPORT void fakecuda_abort_on_misuse(int on);
void fakecuda_abort_on_misuse(int on)
{
	fake_configure();
	atomic_store(&aborts, on != 0);
}

/* The end of the process, where a real driver takes itself down as well. */
__attribute__((destructor)) static void end(void)
{
	if (!atomic_load(&is_forked))
		fake_write_ledger();
	fake_unshare();
	atomic_store(&is_ended, true);
}
