/* heap/address_limit.h -- limits of the address space of this process (RLIMIT_AS, RLIMIT_DATA).
 * What the library reserves or keeps mapped counts against them. Owns no state. Any thread. */
#ifndef MT_HEAP_ADDRESS_LIMIT_H
#define MT_HEAP_ADDRESS_LIMIT_H

/* Reads the limits. Where they are new, returns reserved address space that was never used, and has
 * jemalloc unmap what is free, from now on too. Takes the purge lock. Two system calls. */
void mt_address_limit_follow(void);

#endif
