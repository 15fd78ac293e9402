/* sparse_environment.c MB -- has an environment of so many MB, says "ready" and waits for the end
 * of its input. */
#include "sparse_environment.h"

int main(int argc, char **argv)
{
	if (!lengthen_environment(strtoull(argc > 1 ? argv[1] : "1024", NULL, 10) << 20)) {
		perror("PR_SET_MM_MAP");
		return 1;
	}
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		continue;
	return 0;
}
