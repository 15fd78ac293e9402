/* ledger.c -- calls counted, delayed, failed and logged at their entry, and what is live. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

_Atomic uint64_t fake_call_counts[FN_COUNT];

/* What was ordered for a function; written by tests at any time, so atomics, no ordering between
 * them. */
static struct {
	_Atomic uint64_t fail_at; /* the call that fails; UINT64_MAX: every one; 0: none */
	_Atomic int fail_code;
	_Atomic unsigned int latency_us;
} orders[FN_COUNT];

static void log_call(const char *symbol)
{
	static _Atomic int fd = -2; /* -1: none is wanted */
	const char *path;
	char line[160];
	int length;

	if (atomic_load(&fd) == -2) {
		path = getenv("FAKECUDA_LOG");
		atomic_store(&fd, path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)
				       : -1);
	}
	if (atomic_load(&fd) < 0)
		return;
	length = snprintf(line, sizeof(line), "%ld %s\n", (long)syscall(SYS_gettid), symbol);
	if (write(atomic_load(&fd), line, (size_t)length) < 0)
		return;
}

int fake_inject(enum fake_fn fn)
{
	const uint64_t nth =
		atomic_fetch_add_explicit(&fake_call_counts[fn], 1, memory_order_relaxed) + 1;
	const unsigned int latency_us =
		atomic_load_explicit(&orders[fn].latency_us, memory_order_relaxed);
	uint64_t fail_at;

	log_call(fake_rows[fn].symbol);
	if (latency_us > 0) {
		const struct timespec time = {.tv_sec = latency_us / 1000000,
					      .tv_nsec = latency_us % 1000000 * 1000L};

		nanosleep(&time, NULL);
	}
	fail_at = atomic_load_explicit(&orders[fn].fail_at, memory_order_relaxed);
	if (fail_at == UINT64_MAX || (fail_at != 0 && fail_at == nth))
		return atomic_load_explicit(&orders[fn].fail_code, memory_order_relaxed);
	return OK;
}

/* "name=100,..." or "name:3=2,..." */
void fake_inject_order(const char *text, bool is_latency)
{
	char name[128];
	unsigned int nth;
	int value, taken, fn;

	while (*text != '\0') {
		nth = is_latency ? 0 : 1;
		taken = 0;
		if (sscanf(text, "%127[A-Za-z0-9_]:%u=%d%n", name, &nth, &value, &taken) < 3 &&
		    sscanf(text, "%127[A-Za-z0-9_]=%d%n", name, &value, &taken) < 2)
			taken = 0;
		fn = taken > 0 ? fake_row_find(name) : -1;
		if (fn < 0) {
			fprintf(stderr, "fakecuda: \"%s\" is not understood\n", text);
			return;
		}
		if (is_latency)
			atomic_store(&orders[fn].latency_us, (unsigned int)value);
		else
			fakecuda_fail(name, nth, value);
		text += taken;
		text += *text == ',';
	}
}

FAKE_EXPORT int fakecuda_fail(const char *symbol, unsigned int nth, int code);
int fakecuda_fail(const char *symbol, unsigned int nth, int code)
{
	const int fn = fake_row_find(symbol);

	if (fn < 0)
		return -1;
	atomic_store(&orders[fn].fail_at, 0);
	atomic_store(&orders[fn].fail_code, code);
	if (code != OK)
		atomic_store(&orders[fn].fail_at,
			     nth == 0 ? UINT64_MAX : atomic_load(&fake_call_counts[fn]) + nth);
	return 0;
}

FAKE_EXPORT int fakecuda_latency(const char *symbol, unsigned int us);
int fakecuda_latency(const char *symbol, unsigned int us)
{
	const int fn = fake_row_find(symbol);

	if (fn < 0)
		return -1;
	atomic_store(&orders[fn].latency_us, us);
	return 0;
}

FAKE_EXPORT uint64_t fakecuda_calls(const char *symbol);
uint64_t fakecuda_calls(const char *symbol)
{
	const int fn = fake_row_find(symbol);

	return fn < 0 ? 0 : atomic_load_explicit(&fake_call_counts[fn], memory_order_relaxed);
}

FAKE_EXPORT void fakecuda_ledger(struct fakecuda_ledger *out);
void fakecuda_ledger(struct fakecuda_ledger *out)
{
	int fn;

	fake_configure();
	fake_lock();
	*out = fake_ledger;
	fake_unlock();
	out->calls = 0;
	for (fn = 0; fn < FN_COUNT; fn++)
		out->calls += atomic_load_explicit(&fake_call_counts[fn], memory_order_relaxed);
}

FAKE_EXPORT uint64_t fakecuda_used_bytes(int device);
uint64_t fakecuda_used_bytes(int device)
{
	uint64_t bytes;

	fake_configure();
	if (!fake_device_is(device))
		return 0;
	fake_lock();
	bytes = fake_devices[device].charged_bytes;
	fake_unlock();
	return bytes;
}

FAKE_EXPORT unsigned int fakecuda_contexts(int device);
unsigned int fakecuda_contexts(int device)
{
	const struct CUctx_st *context;
	unsigned int count = 0;

	fake_lock();
	for (context = fake_contexts; context; context = context->next)
		count += context->device == device;
	fake_unlock();
	return count;
}

void fake_write_ledger(void)
{
	static const char *const kinds[FAKECUDA_KIND_COUNT] = {
		"device", "pitch", "managed", "async",      "graph",
		"vmm",    "array", "pinned",  "registered", "ipc"};
	struct fakecuda_ledger now;
	FILE *file;
	int i;

	if (fake_settings.ledger_path == NULL)
		return;
	file = fopen(fake_settings.ledger_path, "ae");
	if (file == NULL)
		return;
	fakecuda_ledger(&now);
	fprintf(file, "{\"pid\": %ld, \"live_bytes\": {", (long)getpid());
	for (i = 0; i < FAKECUDA_KIND_COUNT; i++)
		fprintf(file, "%s\"%s\": %llu", i ? ", " : "", kinds[i],
			(unsigned long long)now.live_bytes[i]);
	fprintf(file, "}, \"live_count\": {");
	for (i = 0; i < FAKECUDA_KIND_COUNT; i++)
		fprintf(file, "%s\"%s\": %llu", i ? ", " : "", kinds[i],
			(unsigned long long)now.live_count[i]);
	fprintf(file,
		"}, \"charged_bytes\": %llu, \"peak_charged_bytes\": %llu, \"contexts\": %llu, "
		"\"streams\": %llu, "
		"\"events\": %llu, \"graphs\": %llu, \"modules\": %llu, \"misuses\": %llu, "
		"\"refused_frees\": %llu, \"calls\": {",
		(unsigned long long)now.charged_bytes, (unsigned long long)now.peak_charged_bytes,
		(unsigned long long)now.contexts, (unsigned long long)now.streams,
		(unsigned long long)now.events, (unsigned long long)now.graphs,
		(unsigned long long)now.modules, (unsigned long long)now.misuses,
		(unsigned long long)now.refused_frees);
	for (i = 0, now.calls = 0; i < FN_COUNT; i++)
		if (atomic_load(&fake_call_counts[i]) > 0)
			fprintf(file, "%s\"%s\": %llu", now.calls++ ? ", " : "",
				fake_rows[i].symbol,
				(unsigned long long)atomic_load(&fake_call_counts[i]));
	fprintf(file, "}}\n");
	fclose(file);
}
