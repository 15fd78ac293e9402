/* keys_taken.c COUNT -- takes COUNT thread keys before anybody can have asked for memory; then
 * threads that allocate begin and end, on stacks that libc uses again, and on some that it does
 * not. Prints how many. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS  40
#define AT_ONCE 4

static void take_keys(int argc, char **argv, char **environment)
{
	pthread_key_t key;

	(void)environment;
	for (int i = argc > 1 ? atoi(argv[1]) : 0; i > 0; i--)
		pthread_key_create(&key, NULL);
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char **,
									      char **) = take_keys;

static void *work(void *unused)
{
	void *blocks[100];

	for (size_t i = 0; i < 100; i++)
		blocks[i] = malloc(20 * i + 1);
	for (size_t i = 0; i < 100; i++)
		free(blocks[i]);
	return unused;
}

int main(void)
{
	int ended = 0;

	for (int round = 0; round < ROUNDS; round++) {
		/* libc keeps 40 MB of stacks, and unmaps what is more */
		size_t bytes = round % 2 ? 32ul << 20 : 1ul << 20;
		pthread_t ids[AT_ONCE];
		pthread_attr_t attr;

		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, bytes);
		for (int i = 0; i < AT_ONCE; i++)
			if (pthread_create(&ids[i], &attr, work, NULL))
				return 1;
		for (int i = 0; i < AT_ONCE; i++)
			ended += pthread_join(ids[i], NULL) == 0;
	}
	printf("%d threads\n", ended);
	return 0;
}
