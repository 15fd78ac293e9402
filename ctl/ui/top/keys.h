/* ctl/ui/top/keys.h -- keys: characters as themselves, others by names of our own, so that only
 * main.c knows ncurses. The help is made from the table. */
#ifndef MT_CTL_UI_TOP_KEYS_H
#define MT_CTL_UI_TOP_KEYS_H

#define MT_KEY_CONTROL(letter) ((letter)&0x1f)

enum mt_top_key {
	MT_KEY_NONE = -1,
	MT_KEY_ENTER = '\n',
	MT_KEY_ESCAPE = 0x1b,
	MT_KEY_UP = 0x100,
	MT_KEY_DOWN,
	MT_KEY_LEFT,
	MT_KEY_RIGHT,
	MT_KEY_PAGE_UP,
	MT_KEY_PAGE_DOWN,
	MT_KEY_HOME,
	MT_KEY_END,
	MT_KEY_BACKSPACE,
	MT_KEY_RESIZE
};

#define MT_TOP_KEYS(X)                                                                             \
	X("Up Down j k, PgUp PgDn, Home End", "select a process")                                  \
	X("Enter", "details of it: figures, rounds and cleanups, settings, devices")               \
	X("l", "light cleanup of it: gc and heap")                                                 \
	X("h c", "heavy cleanup of it: GPU caches too; asks first")                                \
	X("s", "change a live setting in it: NAME=VALUE")                                          \
	X("Left Right, f",                                                                         \
	  "fold what is below it, unfold it; its figures are then those of all of them")           \
	X("z", "fold all, unfold all")                                                             \
	X("t", "tree or flat")                                                                     \
	X("p", "hide the pane below the list, show it: the selected process over time")            \
	X("o", "choose the column to sort by")                                                     \
	X("P R L U F G A B T N",                                                                   \
	  "sort by PID, RSS, live, reusable, fragmentation, GPU, age of the last cleanup, "        \
	  "budget, trend, name; again: the other way round")                                       \
	X("/", "filter by command or PID; Esc takes it away")                                      \
	X("Space", "pause; again: go on")                                                          \
	X("+ -", "update less often, more often")                                                  \
	X("? q", "this help; quit (Ctrl-C too)")

#endif
