/* core/exit_hooks.h -- wraps _exit, _Exit and quick_exit, which run no exit handler, to unlink the
 * shim's files first. Owns the addresses of the next functions in line. Any thread, any signal
 * handler and a vfork child may call the wrappers. Takes no lock. */
#ifndef MT_CORE_EXIT_HOOKS_H
#define MT_CORE_EXIT_HOOKS_H

/* Looks up the next functions in line. Called once, from the constructor. */
void mt_exit_hooks_start(void);

#endif
