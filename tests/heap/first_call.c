/* first_call.c PLACE CALL -- the first call of the program's own code into the heap is CALL, made
 * in PLACE:
 *   preinit      a function of the program's preinit_array: before libc itself is initialised, and
 *     any constructor
 *   resolver     an ifunc resolver of the program, while it is being relocated (compiled with
 *     -DRESOLVER=CALL: nobody tells
 *                a resolver anything)
 *   constructor  an ELF constructor of the program, or (compiled with -DLIBRARY) of a library
 *   main         main
 * What it made is used, made larger and freed in main. Prints "CALL well"; writes by write(2), for
 * stdio allocates. */
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES 700

static char *made;
static const char *made_by;

static void fail(const char *text)
{
	(void)!write(1, text, strlen(text));
	_exit(90);
}

static void make(const char *call)
{
	void *out = NULL;
	size_t alignment = 1;

	if (strcmp(call, "malloc") == 0)
		out = malloc(BYTES);
	else if (strcmp(call, "calloc") == 0)
		out = calloc(7, BYTES / 7);
	else if (strcmp(call, "realloc") == 0)
		out = realloc(NULL, BYTES);
	else if (strcmp(call, "reallocarray") == 0)
		out = reallocarray(NULL, 7, BYTES / 7);
	else if (strcmp(call, "memalign") == 0)
		out = memalign(alignment = 256, BYTES);
	else if (strcmp(call, "aligned_alloc") == 0)
		out = aligned_alloc(alignment = 64, 704);
	else if (strcmp(call, "posix_memalign") == 0 &&
		 posix_memalign(&out, alignment = 4096, BYTES) != 0)
		fail("posix_memalign failed\n");
	else if (strcmp(call, "valloc") == 0)
		out = valloc(alignment = BYTES);
	else if (strcmp(call, "pvalloc") == 0)
		out = pvalloc(BYTES);
	else if (strcmp(call, "strdup") == 0)
		out = realloc(strdup("a text"), BYTES);
	else if (strcmp(call, "large") == 0) /* larger than what libc maps by itself */
		out = realloc(malloc(5000000), BYTES);
	else if (strcmp(call, "many") == 0)
		for (unsigned i = 0; i < 20000; i++)
			free(out), out = malloc(BYTES);
	if (strcmp(call, "free") == 0)
		free(NULL);
	else if (strcmp(call, "malloc_usable_size") == 0 && malloc_usable_size(NULL) != 0)
		fail("malloc_usable_size(NULL) is not 0\n");
	else if (strcmp(call, "malloc_trim") == 0)
		(void)malloc_trim(0);
	if (!out)
		out = malloc(BYTES);
	if (!out ||
	    (alignment == 256 || alignment == 64 || alignment == 4096 ? (uintptr_t)out % alignment
								      : 0))
		fail("no block, or not aligned\n");
	if (strcmp(call, "calloc") == 0)
		for (unsigned i = 0; i < BYTES; i++)
			if (((char *)out)[i])
				fail("calloc is not zero\n");
	if (malloc_usable_size(out) < BYTES)
		fail("too small\n");
	memset(out, 0x5a, BYTES);
	made = out;
	made_by = call;
}

#ifndef LIBRARY
static int is_place(int argc, char **argv, const char *place)
{
	return argc > 2 && strcmp(argv[1], place) == 0;
}

#ifdef RESOLVER
static int forty_two(void)
{
	return 42;
}

static int (*resolve(void))(void)
{
	make(RESOLVER);
	return forty_two;
}

int resolved(void) __attribute__((ifunc("resolve")));
#else
static int resolved(void)
{
	return 42;
}
#endif

static void at_preinit(int argc, char **argv, char **environment)
{
	(void)environment;
	if (is_place(argc, argv, "preinit"))
		make(argv[2]);
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char **,
									      char **) = at_preinit;

__attribute__((constructor)) static void early(int argc, char **argv)
{
	if (is_place(argc, argv, "constructor"))
		make(argv[2]);
}

static void use(void)
{
	char *larger;

	for (unsigned i = 0; i < BYTES; i++)
		if (made[i] != 0x5a)
			fail("not what was written\n");
	larger = realloc(made, 100000);
	if (!larger || memcmp(larger, larger + 1, BYTES - 1) != 0)
		fail("not what was moved\n");
	free(larger);
}

int main(int argc, char **argv)
{
	if (is_place(argc, argv, "main"))
		make(argv[2]);
	if (made)
		use();
	if (resolved() != 42 || (!made && !is_place(argc, argv, "library")))
		fail("nothing was made\n");
	(void)!write(1, argv[2], strlen(argv[2]));
	(void)!write(1, " well\n", 6);
	return 0;
}
#else
__attribute__((constructor)) static void early(int argc, char **argv)
{
	if (argc > 2)
		make(argv[2]);
}

__attribute__((destructor)) static void late(void)
{
	if (!made)
		return;
	for (unsigned i = 0; i < BYTES; i++)
		if (made[i] != 0x5a)
			fail("not what was written\n");
	free(made);
	free(malloc(100000));
	free(strdup(made_by));
}
#endif
