/* embeds_budget.c -- a program with Python in it that allows Python's objects 40 MB. Argument: when
 * it puts its functions in the place of Python's: before, or between (preinitialised, not yet
 * initialised). Prints what Python says where its objects want 80 MB, and whether the
 * functions are still there. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdio.h>
#include <string.h>

#define BUDGET_BYTES (40u << 20)
#define ROOM         16

static PyMemAllocatorEx next; /* of both domains */
static size_t used_bytes;
static int is_limited;

static void *give(char *block, size_t size)
{
	if (!block)
		return NULL;
	memcpy(block, &size, sizeof(size));
	used_bytes += size;
	return block + ROOM;
}

static size_t size_of(void *at)
{
	size_t size;

	memcpy(&size, (char *)at - ROOM, sizeof(size));
	return size;
}

static int is_refused(size_t size)
{
	return is_limited && used_bytes + size > BUDGET_BYTES;
}

static void *budget_malloc(void *own, size_t size)
{
	(void)own;
	return is_refused(size) ? NULL : give(next.malloc(next.ctx, size + ROOM), size);
}

static void *budget_calloc(void *own, size_t count, size_t size)
{
	size_t bytes = count * size;

	(void)own;
	return is_refused(bytes) ? NULL : give(next.calloc(next.ctx, 1, bytes + ROOM), bytes);
}

static void budget_free(void *own, void *at)
{
	(void)own;
	if (!at)
		return;
	used_bytes -= size_of(at);
	next.free(next.ctx, (char *)at - ROOM);
}

static void *budget_realloc(void *own, void *at, size_t size)
{
	void *fresh = budget_malloc(own, size);

	if (fresh && at) {
		memcpy(fresh, at, size < size_of(at) ? size : size_of(at));
		budget_free(own, at);
	}
	return fresh;
}

static void install(void)
{
	PyMemAllocatorEx budget = {NULL, budget_malloc, budget_calloc, budget_realloc, budget_free};

	PyMem_GetAllocator(PYMEM_DOMAIN_OBJ, &next);
	PyMem_SetAllocator(PYMEM_DOMAIN_MEM, &budget);
	PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &budget);
}

static int is_installed(void)
{
	PyMemAllocatorEx now;

	PyMem_GetAllocator(PYMEM_DOMAIN_OBJ, &now);
	return now.malloc == budget_malloc;
}

int main(int argc, char **argv)
{
	const char *when = argc > 1 ? argv[1] : "";
	PyPreConfig config;

	if (strcmp(when, "before") == 0)
		install();
	PyPreConfig_InitPythonConfig(&config);
	if (PyStatus_Exception(Py_PreInitialize(&config)))
		return 1;
	if (strcmp(when, "between") == 0)
		install();
	Py_Initialize();
	is_limited = 1;
	return PyRun_SimpleString("import sys\n"
				  "try:\n"
				  "    rows = [[i] for i in range(800_000)]\n"
				  "    said = 'no limit'\n"
				  "except MemoryError:\n"
				  "    said = 'the limit holds'\n"
				  "rows = None\n"
				  "print(said, flush=True)\n") != 0 ||
	       printf("%s\n", is_installed() ? "there" : "gone") < 0;
}
