/* count_keys.c -- prints how many thread keys a program can create. */
#include <pthread.h>
#include <stdio.h>

int main(void)
{
	pthread_key_t key;
	int count = 0;

	while (pthread_key_create(&key, NULL) == 0)
		count++;
	printf("%d\n", count);
	return 0;
}
