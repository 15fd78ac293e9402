/* python/cpython.h -- the functions and objects of CPython that the shim uses, and its version.
 * Owns one table, which is written once: no function of it may be called before mt_cpython_find()
 * or mt_cpython_is_found() has returned true. Objects are void *: the shim does not depend on their
 * layout. */
#ifndef MT_PYTHON_CPYTHON_H
#define MT_PYTHON_CPYTHON_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct mt_python_allocator;

/* In CPython 3.8 to 3.14. Without one of CORE there is no interpreter for us; without one of REST
 * is_whole is false. */
#define MT_CPYTHON_CORE(X)                                                                         \
	X(int, Py_IsInitialized, (void))                                                           \
	X(int, Py_AddPendingCall, (int (*function)(void *), void *argument))                       \
	X(intptr_t, PyGC_Collect, (void))
#define MT_CPYTHON_REST(X)                                                                         \
	X(const char *, Py_GetVersion, (void))                                                     \
	X(void *, PyGILState_GetThisThreadState, (void))                                           \
	X(int, PyGILState_Ensure, (void))                                                          \
	X(void, PyGILState_Release, (int state))                                                   \
	X(void *, PyInterpreterState_Main, (void))                                                 \
	X(void *, PyInterpreterState_Head, (void))                                                 \
	X(void *, PyThreadState_New, (void *interpreter))                                          \
	X(void, PyThreadState_Clear, (void *state))                                                \
	X(void, PyThreadState_DeleteCurrent, (void))                                               \
	X(void, PyEval_RestoreThread, (void *state))                                               \
	X(void *, PyImport_GetModuleDict, (void))                                                  \
	X(void *, PyImport_ImportModuleLevel,                                                      \
	  (const char *name, void *globals, void *locals, void *list, int level))                  \
	X(void *, PyModule_GetDict, (void *module))                                                \
	X(void *, PyDict_GetItemString, (void *dict, const char *key))                             \
	X(void *, PyDict_Values, (void *dict))                                                     \
	X(void *, PyObject_Type, (void *object))                                                   \
	X(void *, PyObject_GetAttrString, (void *object, const char *name))                        \
	X(int, PyObject_SetAttrString, (void *object, const char *name, void *value))              \
	X(void *, PyObject_CallObject, (void *callable, void *arguments))                          \
	X(void *, PyObject_CallFunction, (void *callable, const char *format, ...))                \
	X(void *, PyObject_CallFunctionObjArgs, (void *callable, ...))                             \
	X(int, PyObject_IsTrue, (void *object))                                                    \
	X(void *, PyBytes_FromStringAndSize, (const char *from, intptr_t bytes))                   \
	X(unsigned long long, PyLong_AsUnsignedLongLong, (void *number))                           \
	X(intptr_t, PyList_Size, (void *list))                                                     \
	X(void *, PyList_GetItem, (void *list, intptr_t index))                                    \
	X(intptr_t, PyTuple_Size, (void *tuple))                                                   \
	X(void *, PyTuple_GetItem, (void *tuple, intptr_t index))                                  \
	X(const char *, PyUnicode_AsUTF8, (void *text))                                            \
	X(const char *, PyUnicode_AsUTF8AndSize, (void *text, intptr_t *bytes))                    \
	X(void, Py_IncRef, (void *object))                                                         \
	X(void, Py_DecRef, (void *object))                                                         \
	X(void *, PyErr_Occurred, (void))                                                          \
	X(int, PyErr_ExceptionMatches, (void *exception))                                          \
	X(void, PyErr_Clear, (void))                                                               \
	X(void, PyErr_SetInterrupt, (void))                                                        \
	X(void, PyErr_Fetch, (void **type, void **value, void **trace))                            \
	X(void, PyErr_Restore, (void *type, void *value, void *trace))                             \
	X(void, PyMem_GetAllocator, (int domain, struct mt_python_allocator *out))                 \
	X(void, PyMem_SetAllocator, (int domain, const struct mt_python_allocator *allocator))

/* In some versions and builds: NULL elsewhere. 3.8 has no PyInterpreterState_Get, 3.8 and 3.9 no
 * PyGC_IsEnabled and its siblings; only free-threaded builds have _Py_DecRefShared. */
#define MT_CPYTHON_SOME(X)                                                                         \
	X(void *, PyInterpreterState_Get, (void))                                                  \
	X(int, PyGC_IsEnabled, (void))                                                             \
	X(int, PyGC_Disable, (void))                                                               \
	X(int, PyGC_Enable, (void))                                                                \
	X(void, _Py_DecRefShared, (void *object))                                                  \
	X(void, _PyEval_SignalAsyncExc, (void *interpreter))                                       \
	X(const char *, _PyMem_GetCurrentAllocatorName, (void))

/* Objects; of a type the address is the object. */
#define MT_CPYTHON_OBJECTS(X)                                                                      \
	X(void **, PyExc_KeyboardInterrupt)                                                        \
	X(void **, PyExc_MemoryError)                                                              \
	X(void *, PyModule_Type)                                                                   \
	X(void *, PyCode_Type)                                                                     \
	X(void *, PyUnicode_Type)                                                                  \
	X(void *, PyBytes_Type)                                                                    \
	X(void *, _Py_NoneStruct)

struct mt_cpython {
#define X(type, name, parameters) type(*name) parameters;
	MT_CPYTHON_CORE(X)
	MT_CPYTHON_REST(X)
	MT_CPYTHON_SOME(X)
#undef X
#define X(type, name) type name;
	MT_CPYTHON_OBJECTS(X)
#undef X
	int (*Py_IsFinalizing)(void); /* _Py_IsFinalizing before 3.13; may be NULL */
	/* _Py_GetAllocatedBlocks, since 3.12 _Py_GetGlobalAllocatedBlocks; may be NULL */
	intptr_t (*Py_GetAllocatedBlocks)(void);
	const unsigned long *Py_Version; /* since 3.11 */
	bool is_whole;
};
extern struct mt_cpython mt_cpython;

/* Looks for the interpreter, until there is one: a program may load Python late. Returns whether
 * the table is filled. Any thread that may call the loader; waits for no library's constructor.
 * Takes the lock `python`. */
bool mt_cpython_find(void);

/* Returns whether it is found, without a search. Any thread, also inside malloc. */
bool mt_cpython_is_found(void);

/* Returns the 11 of 3.11; 0: it is not Python 3. Once it is found. */
unsigned mt_cpython_minor(void);

/* Helpers for a thread that holds the GIL, once the table is whole. Each accepts NULL, and returns
 * with no Python error set. */
void mt_cpython_clear_error(void);
/* Returns the object, the result of a call that sets an error if it is NULL. */
void *mt_cpython_checked(void *object);
void mt_cpython_release(void *object);
/* Returns a new reference; NULL: there is no such attribute. */
void *mt_cpython_attribute(void *object, const char *name);

/* ---- eval breaker ---- */

/* Makes Python's main thread notice a pending call. In CPython 3.9 to 3.12 the main thread notices
 * a call that another thread queued only when it takes the GIL, and a loop in a process with one
 * thread never does. So the shim sets the eval breaker, the word of the main interpreter that the
 * bytecode loop tests, as CPython sets it from threads without the GIL. Set without need it costs
 * the interpreter one test of its pending work. 3.8, 3.13 and later set it themselves. Owns the
 * lock python_wake. Sends no signal, starts no thread, never takes the GIL. */

/* The state of the main thread. */
enum mt_main_state {
	MT_MAIN_UNKNOWN, /* /proc cannot be read */
	MT_MAIN_RUNS,    /* runs, or waits for a CPU */
	MT_MAIN_WAITS    /* waits in a system call */
};

/* Sets the eval breaker if *queue is `queued` and the main thread waits in no system call. A
 * queued pending call keeps the interpreter alive meanwhile. queue: the state of the pending call;
 * call only between mt_python_is_running() and the end of that call. Returns the state of the main
 * thread. Any thread may call. Takes the lock python_wake; opens a file. */
enum mt_main_state mt_python_breaker_set(const _Atomic uint32_t *queue, uint32_t queued);

/* Waits for a mt_python_breaker_set that is under way: after it no thread writes to the interpreter
 * for this call. The pending call itself calls it, on the main thread, once *queue is no longer
 * `queued`. Takes the lock python_wake. */
void mt_python_breaker_call_done(void);

/* Resets the locks in a forked child. */
void mt_cpython_fork_child(void);

#endif
