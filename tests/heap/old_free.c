/* old_free.c -- a program that was linked before glibc 2.26, and frees by cfree: a large block, and
 * a small one after that. */
#include <stdio.h>
#include <stdlib.h>

void free_by_old_name(void *ptr);
#ifdef __aarch64__
__asm__(".symver free_by_old_name,cfree@GLIBC_2.17");
#else
__asm__(".symver free_by_old_name,cfree@GLIBC_2.2.5");
#endif

int main(void)
{
	free_by_old_name(malloc(3 << 20));
	free_by_old_name(malloc(100));
	puts("well");
	return 0;
}
