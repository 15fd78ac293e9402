/* grown_pages.c -- prints how many of 100 pages are resident before the program touches them, of
 * the last blocks of a heap that grows to 80 MB. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE  4096u
#define COUNT 20000u
#define FIRST 4000u /* of those that are looked at */

int main(void)
{
	unsigned int resident = 0;

	for (size_t i = 0; i < COUNT; i++) {
		unsigned char in_memory = 0;
		volatile char *block = malloc(PAGE);

		if ((uintptr_t)block % PAGE == 0 && mincore((char *)block, PAGE, &in_memory) == 0 &&
		    i >= FIRST)
			resident += in_memory & 1;
		*block = 1;
	}
	printf("%u\n", resident * 100 / (COUNT - FIRST));
	return 0;
}
