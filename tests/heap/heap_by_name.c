/* heap_by_name.c MODE -- the heap family asked of libc by name, mixed with what the program is
 * linked to.
 *   mixes       every maker, found through each handle and linked, with every way to look at,
 *     resize and free its block
 *   namespace   a libc of another namespace keeps its own malloc
 *   next        what RTLD_NEXT answers
 *   early       a block that a library's constructor has made by libc's handle (compiled with
 *     -DEARLY=..., linked to
 * it) Prints "N well", or what went wrong. As a library (-DLIBRARY): a constructor that asks before
 * anybody has allocated. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#define BASE "GLIBC_2.2.5"
#else
#define BASE "GLIBC_2.17"
#endif

#ifdef LIBRARY
void *heap_by_name_early;

__attribute__((constructor)) static void begin(void)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	void *(*make)(size_t) = (void *(*)(size_t))dlsym(libc, "malloc");

	heap_by_name_early = make(100);
	memset(heap_by_name_early, 1, 100);
}
#else

/* The linked ones, by libc's second names too. */
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void *__libc_valloc(size_t);
void *__libc_pvalloc(size_t);
void __libc_free(void *);

#define BYTES 500

enum shape { ONE, TWO, RESIZE, RESIZE_ARRAY, ALIGNED, POSIX };

static const struct {
	const char *name;
	void (*linked)(void);
	enum shape shape;
} makers[] = {
#define MAKER(function, shape)                                                                     \
	{                                                                                          \
#function, (void (*)(void))function, shape                                         \
	}
	MAKER(malloc, ONE),
	MAKER(calloc, TWO),
	MAKER(realloc, RESIZE),
	MAKER(reallocarray, RESIZE_ARRAY),
	MAKER(memalign, ALIGNED),
	MAKER(aligned_alloc, ALIGNED),
	MAKER(posix_memalign, POSIX),
	MAKER(valloc, ONE),
	MAKER(pvalloc, ONE),
	MAKER(__libc_malloc, ONE),
	MAKER(__libc_calloc, TWO),
	MAKER(__libc_realloc, RESIZE),
	MAKER(__libc_memalign, ALIGNED),
	MAKER(__libc_valloc, ONE),
	MAKER(__libc_pvalloc, ONE),
};
#define MAKERS (sizeof(makers) / sizeof(makers[0]))

static void *make(void (*function)(void), enum shape shape)
{
	void *out = NULL;

	switch (shape) {
	case ONE:
		return ((void *(*)(size_t))function)(BYTES);
	case TWO:
		return ((void *(*)(size_t, size_t))function)(5, BYTES / 5);
	case RESIZE:
		return ((void *(*)(void *, size_t))function)(malloc(10), BYTES);
	case RESIZE_ARRAY:
		return ((void *(*)(void *, size_t, size_t))function)(malloc(10), 5, BYTES / 5);
	case ALIGNED:
		return ((void *(*)(size_t, size_t))function)(64, 512);
	default:
		return ((int (*)(void **, size_t, size_t))function)(&out, 64, BYTES) ? NULL : out;
	}
}

struct taker {
	void (*release)(void *);
	void *(*resize)(void *, size_t);
	size_t (*usable)(void *);
};

static struct taker taker_of(void *handle)
{
	return (struct taker){
		(void (*)(void *))dlsym(handle, "free"),
		(void *(*)(void *, size_t))dlsym(handle, "realloc"),
		(size_t(*)(void *))dlsym(handle, "malloc_usable_size"),
	};
}

static int use(void *block, const struct taker *taker, const char *name)
{
	if (!block || taker->usable(block) < BYTES) {
		printf("%s: no block\n", name);
		return 0;
	}
	memset(block, 0x5a, BYTES);
	block = taker->resize(block, 3000);
	if (!block || ((char *)block)[BYTES - 1] != 0x5a) {
		printf("%s: not resized\n", name);
		return 0;
	}
	taker->release(block);
	return 1;
}

static int mixes(void)
{
	void *handles[] = {dlopen("libc.so.6", RTLD_NOW), dlopen("libm.so.6", RTLD_NOW),
			   dlopen(NULL, RTLD_NOW), RTLD_DEFAULT};
	struct taker takers[6] = {{free, realloc, malloc_usable_size},
				  {__libc_free, __libc_realloc, malloc_usable_size}};
	int well = 0;

	for (int i = 0; i < 4; i++)
		takers[i + 2] = taker_of(handles[i]);
	for (size_t i = 0; i < MAKERS; i++) {
		for (int t = 0; t < 6; t++) {
			well += use(make(makers[i].linked, makers[i].shape), &takers[t],
				    makers[i].name);
			for (int h = 0; h < 4; h++)
				well += use(make((void (*)(void))dlsym(handles[h], makers[i].name),
						 makers[i].shape),
					    &takers[t], makers[i].name);
		}
	}
	for (int t = 0; t < 6; t++)
		well += use(((void *(*)(size_t))dlvsym(handles[0], "malloc", BASE))(BYTES),
			    &takers[t], "dlvsym");
	return well == (int)MAKERS * 6 * 5 + 6 ? well : 0;
}

/* Its blocks are no business of ours: they go back to where they came from. */
static int other_namespace(void)
{
	void *other = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
	void *(*make_there)(size_t) = (void *(*)(size_t))dlsym(other, "malloc");
	void (*free_there)(void *) = (void (*)(void *))dlsym(other, "free");
	Dl_info info;
	void *block = make_there(100);

	memset(block, 1, 100);
	free_there(block);
	return dladdr((void *)make_there, &info) && strstr(info.dli_fname, "libc.so.6") ? 1 : 0;
}

static int next(void)
{
	Dl_info info;

	/* What this libc has not it has not with us either. */
	puts(dlsym(dlopen("libc.so.6", RTLD_NOW), "free_sized") ? "has free_sized"
								: "has no free_sized");
	return dladdr(dlsym(RTLD_NEXT, "malloc"), &info) &&
	       puts(strrchr(info.dli_fname, '/') + 1) > 0;
}

#ifdef EARLY
extern void *heap_by_name_early;

static int early(void)
{
	heap_by_name_early = realloc(heap_by_name_early, 5000);
	free(heap_by_name_early);
	return 1;
}
#endif

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int well = 0;

	if (strcmp(mode, "mixes") == 0)
		well = mixes();
	else if (strcmp(mode, "namespace") == 0)
		well = other_namespace();
	else if (strcmp(mode, "next") == 0)
		well = next();
#ifdef EARLY
	else if (strcmp(mode, "early") == 0)
		well = early();
#endif
	if (well)
		printf("%d well\n", well);
	return well ? 0 : 1;
}
#endif
