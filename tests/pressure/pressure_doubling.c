/* pressure_doubling.c MB -- fills an array word by word up to MB, as std::vector does: whenever it
 * is full its words are copied into a new one of twice the size, and the old one is freed. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	size_t count = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1) << 17, room = 1;
	uint64_t *words = malloc(sizeof(*words));

	for (size_t i = 0; i < count; i++) {
		if (i == room) {
			uint64_t *larger = malloc(2 * room * sizeof(*words));

			memcpy(larger, words, room * sizeof(*words));
			free(words);
			words = larger;
			room *= 2;
		}
		words[i] = i;
	}
	return words[count / 2] != count / 2;
}
