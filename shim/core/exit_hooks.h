/* core/exit_hooks.h -- the ends of a process without exit handlers. */
#ifndef MT_CORE_EXIT_HOOKS_H
#define MT_CORE_EXIT_HOOKS_H

/* Looks up the functions behind ours; from the constructor. */
void mt_exit_hooks_start(void);

#endif
