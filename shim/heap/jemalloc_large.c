#include "heap/jemalloc_large.h"

#include "sys/attr.h"

/* Internal to jemalloc 5: src/large.c. Its callers in other files come here instead (jemalloc.mk).
 */
extern size_t je_large_salloc(void *thread, const void *extent) __attribute__((weak));
extern void __real_je_large_dalloc(void *thread, void *extent) __attribute__((weak));
void __wrap_je_large_dalloc(void *thread, void *extent);

static void (*told)(void);

void mt_jemalloc_large_use(void (*freed)(void))
{
	told = freed;
}

void __wrap_je_large_dalloc(void *thread, void *extent)
{
	size_t bytes = je_large_salloc(thread, extent);

	__real_je_large_dalloc(thread, extent);
	if (mt_unlikely(bytes >= MT_JEMALLOC_LARGE_LEAST) && told)
		told();
}
