/* ctl/ui/top/terminal.c -- see terminal.h. By itself, since term.h makes macros of words like
 * columns. */
#include "ctl/ui/top/terminal.h"

#include <ncurses.h>
#include <stdlib.h>
#include <term.h>
#include <unistd.h>

#include "ctl/output/text.h"

enum mt_err mt_top_terminal_check(struct mt_why *why)
{
	const char *advice = "; `mtctl ps` or `mtctl top --once` prints the list";
	const char *name = getenv("TERM"), *move;
	char shown[40] = "";
	int status;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return mt_error_because(why, MT_ERR_NOT_AVAILABLE, "top needs a terminal%s",
					advice);
	for (size_t i = 0; name && name[i] && i + 1 < sizeof(shown); i++)
		shown[i] = name[i];
	mt_text_clean(shown, sizeof(shown));
	if (!*shown || setupterm(shown, STDOUT_FILENO, &status) != OK)
		return mt_error_because(why, MT_ERR_NOT_AVAILABLE,
					"top needs a terminal that can move the cursor; nothing is "
					"known of TERM=%s%s",
					shown, advice);
	move = tigetstr("cup");
	if (!move || move == (char *)-1)
		return mt_error_because(
			why, MT_ERR_NOT_AVAILABLE,
			"top needs a terminal that can move the cursor, which TERM=%s cannot%s",
			shown, advice);
	return MT_ERR_OK;
}
