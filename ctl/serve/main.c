/* ctl/serve/main.c -- the program of mtctl serve. */
#include "ctl/command.h"

int main(int argc, char **argv)
{
	static const struct mt_external commands[] = {{0}};

	return mt_external_main(commands, argc, argv);
}
