/* heap_boot.h -- see heap_boot.c. */
#ifndef FUZZ_HEAP_BOOT_H
#define FUZZ_HEAP_BOOT_H

void fuzz_boot_anew(void);

#endif
