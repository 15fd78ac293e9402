/* ctl/ui/plot/main.c -- the program of mtctl plot, mtctl compare and mtctl report. */
#include "ctl/command.h"
#include "ctl/ui/plot/plotting.h"

int main(int argc, char **argv)
{
	static const struct mt_subcommand commands[] = {
		{"plot", mt_plot_run}, {"compare", mt_compare_run}, {"report", mt_report_run}, {0}};

	return mt_subcommand_main(commands, argc, argv);
}
