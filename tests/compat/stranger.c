/* stranger.c [TOUCH] -- says what it is and what it sees: whether the loader keeps it safe
 * (AT_SECURE), whether the shim is in it, its effective ids, its LD_PRELOAD and MT_DIR, and a sum
 * over blocks from the heap. TOUCH: megabytes to touch first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static int is_shim_here(void)
{
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "r");
	int found = 0;

	while (maps && fgets(line, sizeof(line), maps))
		found |= strstr(line, "libmtshim") != NULL;
	if (maps)
		fclose(maps);
	return found;
}

static unsigned long sum_of_blocks(unsigned megabytes)
{
	unsigned long sum = 0;

	for (unsigned i = 0; i < 200 + megabytes * 10; i++) {
		size_t bytes = i < 200 ? 1 + i * 97 : 100000;
		unsigned char *block = malloc(bytes);

		if (!block)
			return 0;
		memset(block, (int)i, bytes);
		block = realloc(block, bytes + 1000);
		sum += block[bytes - 1];
		if (i % 3)
			free(block);
	}
	return sum;
}

int main(int argc, char **argv)
{
	const char *preload = getenv("LD_PRELOAD"), *folder = getenv("MT_DIR");

	printf("sum %lu\n", sum_of_blocks(argc > 1 ? (unsigned)atoi(argv[1]) : 0));
	printf("secure %lu shim %d euid %d egid %d preload %s folder %s\n", getauxval(AT_SECURE),
	       is_shim_here(), (int)geteuid(), (int)getegid(),
	       preload && *preload ? "kept" : "none", folder ? folder : "none");
	return 3;
}
