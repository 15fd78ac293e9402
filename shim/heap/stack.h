/* heap/stack.h -- the stack of a thread that allocates, as the code of the program sees it: frames
 * of this library are left out. Owns nothing. Takes no lock. Never allocates. */
#ifndef MT_HEAP_STACK_H
#define MT_HEAP_STACK_H

#include <stddef.h>
#include <stdint.h>

/* Finds what walks stacks, and the interpreter's lines. Without it a stack is empty. Worker thread;
 * calls the loader: with no lock held, and never inside the allocator. */
void mt_heap_prepare_stack(void);

/* Writes up to max return addresses to out, the innermost first. Returns how many. Any thread, also
 * inside malloc. */
size_t mt_heap_stack(uintptr_t *out, size_t max);

/* Writes "MODULE+0xOFFSET" for an address, or the address where no file is loaded there. Worker
 * thread. */
void mt_heap_stack_text(uintptr_t address, char *out, size_t out_bytes);

#endif
