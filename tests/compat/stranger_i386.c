/* stranger_i386.c -- a 32-bit program without headers or startup files for that: what the machine
 * needs to run one is libc alone. */
void *malloc(unsigned bytes);
void free(void *block);
int puts(const char *text);
void exit(int status);

void _start(void);
void _start(void)
{
	char *block = malloc(100000);

	block[99999] = 1;
	free(block);
	puts("well");
	exit(3);
}
