/* embeds_python.c -- a program that begins and ends Python three times. Argument hooks: with
 * CPython's debug hooks, which check each free. Prints the result of each time. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1)
		PyMem_SetupDebugHooks();
	for (int i = 0; i < 3; i++) {
		Py_Initialize();
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
