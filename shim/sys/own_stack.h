/* sys/own_stack.h -- runs a function on a stack of its own, for work that needs more stack than the
 * caller may have: a coroutine, a thread of PTHREAD_STACK_MIN, a signal stack of SIGSTKSZ. Takes no
 * lock. Any thread, also in a signal handler. */
#ifndef MT_SYS_OWN_STACK_H
#define MT_SYS_OWN_STACK_H

/* Calls function(argument) on a fresh mapping of 256 kB, or on the caller's stack if there is no
 * address space. The function must return. A signal handler that interrupts it runs there, too. */
void mt_own_stack_call(void (*function)(void *), void *argument);

#endif
