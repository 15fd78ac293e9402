/* embeds_python.c -- a program that begins and ends Python three times. Argument hooks: with
 * CPython's debug hooks, which check each free. Prints the result of each time. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdio.h>

/* Whether CPython's debug hooks serve small objects: they write a pattern behind each block. */
static int has_debug_hooks(void)
{
	const unsigned char *block = PyObject_Malloc(24);
	int found = block[24] == 0xfd && block[25] == 0xfd;

	PyObject_Free((void *)(uintptr_t)block);
	return found;
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1)
		PyMem_SetupDebugHooks();
	for (int i = 0; i < 3; i++) {
		Py_Initialize();
		if (has_debug_hooks() != (argc > 1))
			return 3;
		if (PyRun_SimpleString("import json, sys\n"
				       "rows = json.loads(json.dumps([{'x': i, 'y': [i]} "
				       "for i in range(20000)]))\n"
				       "print(len(rows), flush=True)\n") != 0)
			return 1;
		if (Py_FinalizeEx() != 0)
			return 2;
	}
	return 0;
}
