/* ctl/ui/serve/main.c -- the program of mtctl serve. */
#include <stddef.h>

#include "ctl/command.h"
#include "ctl/ui/serve/serve.h"

int main(int argc, char **argv)
{
	static const struct mt_subcommand commands[] = {{"serve", mt_command_serve}, {NULL, NULL}};

	return mt_subcommand_main(commands, argc, argv);
}
