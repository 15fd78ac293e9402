/* clone3_refused.c -- clone3 by its number with pointers that cannot be read: the kernel refuses
 * them. */
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
	long const pointers[] = {8, -1, 0, 12};

	for (int i = 0; i < 4; i++)
		printf("%ld %d\n", syscall(SYS_clone3, pointers[i], 88ul), errno);
	return 0;
}
