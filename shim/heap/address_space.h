/* heap/address_space.h -- limits of the address space of this process (RLIMIT_AS, RLIMIT_DATA).
 * What the library reserves or keeps mapped counts against them. Owns no state. Any thread. */
#ifndef MT_HEAP_ADDRESS_SPACE_H
#define MT_HEAP_ADDRESS_SPACE_H

/* Reads the limits of the process. If one is new, returns reserved address space that was never
 * used, and has jemalloc unmap what is free, from now on too. Two system calls. Takes the purge
 * lock. */
void mt_address_space_follow(void);

/* For a program that locks all that is mapped: as for a limit, but returns what nobody uses of
 * reserved address space, since it would be locked too. */
void mt_address_space_limit_locked(void);

#endif
