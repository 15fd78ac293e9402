/* ctl/ui/top/main.c -- the program of mtctl top. */
#include "ctl/command.h"
#include "ctl/ui/top/top.h"

int main(int argc, char **argv)
{
	static const struct mt_subcommand commands[] = {{"top", mt_command_top}, {0}};

	return mt_subcommand_main(commands, argc, argv);
}
