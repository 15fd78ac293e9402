"""`mtctl top`, driven in tmux as a person would: keys go in, the screen is read back. Nothing sleeps for a fixed time: the
screen is read until it shows what it should."""
import os
import re
import signal
import subprocess
import time

import pytest

from mtctl_helpers import MB, PYTHON, USAGE
from mtctl_helpers import ctl, fake, plain  # noqa: F401 (fixtures)
from top_helpers import line_of, rss_of
from top_helpers import screen, top  # noqa: F401 (fixtures)


# ---- the list ----

def test_the_list_shows_the_published_figures(top, fake):
	# It really holds some 12 MB: what has come since the last figures counts as live.
	pid = fake(values={"rss_bytes": 9 * MB, "rss_anon_bytes": 8 * MB, "heap_live_bytes": 5 * MB, "heap_dirty_bytes": 2 * MB,
	                   "heap_active_bytes": 65 * MB, "heap_resident_bytes": 300 * MB, "uptime_ms": 100000,
	                   "purge_cost_ns": 1_000_000_000, "refault_cost_ns": 500_000_000}, settings={"budget_pct": ["3", "default"]})

	one = top(f"--filter={pid}", size=(140, 30))

	assert re.search(r"M +5\.0M +2\.0M +1\.0M +[\d.]+M +20 +- +- +- +1\.5/3 ▆[ ▆]+ ", line_of(one, pid))
	assert re.search(r"PID +RSS +LIVE +REUSABLE +FILES +OTHER +FRAG% +CLEAN +AGO +WHY +BUDG% +PARTS +TREND +COMMAND", one.text())
	assert re.search(r"Mem\[.*[\d.]+[MG]/[\d.]+[MGT]\]", one.text()) and re.search(r"pressure (none|warn|critical)", one.text()) # of all processes that it may see


def test_the_header_says_how_many_are_under_pressure(top, fake):
	"""One small limit that is full says nothing of the machine."""
	pressed = fake(values={"rss_bytes": 9 * MB, "pressure_level": 2, "limit_bytes": 10 * MB, "limit_used_bytes": 10 * MB})
	fake(values={"rss_bytes": 9 * MB})

	one = top(f"--filter={pressed}", size=(140, 30))

	one.wait(r"pressure critical in 1 of ([2-9]|\d\d)")


def test_a_tree_is_drawn_folded_and_made_flat(top, spawn, env):
	parent = spawn([PYTHON, "-c", "import os, sys\nchild = os.fork()\nif child: print(child, flush=True)\nsys.stdin.read()"],
	               env(MIN_MB=0))
	child = int(parent.stdout.readline())

	one = top(f"--filter={child}")
	one.wait(rf"^ *{child} .*└─python3")
	one.keys("Home", "Escape")  # the parent is selected, and stays so when everybody else is shown again
	one.wait_gone(r"mtctl top.*/")
	line_of(one, parent.pid)
	one.keys("f")
	one.wait(rf"^ *{parent.pid} .*\[\+1\] python3")
	assert not re.search(rf"^ *{child} ", one.text(), re.MULTILINE)
	one.keys("f")
	line_of(one, child)
	one.keys("t")
	one.wait(rf"^ *{child} [^└]*$")


def test_columns_sort_and_again_the_other_way_round(top, fake):
	small, large = (fake(values={"rss_bytes": 9 * MB, "rss_anon_bytes": 9 * MB, "heap_live_bytes": live * MB, "heap_dirty_bytes": 0})
	                for live in (1, 7))
	one = top("--filter=fake_shim", "--flat")

	def order(expected):
		one.wait(rf"(?s)^ *{expected[0]} .*^ *{expected[1]} ")
	one.keys("L")
	order([large, small])
	one.keys("L")
	order([small, large])
	one.keys("o")
	one.wait("Sort by")
	one.keys("Home", "Enter")
	order([small, large])
	one.wait("flat by pid")


def test_the_filter_follows_while_it_is_typed(top, fake):
	first, second = fake(), fake()
	one = top("--filter=fake_shim")
	line_of(one, first)

	one.keys("/")
	one.wait("^Filter: fake_shim")
	one.keys("C-u")
	one.type(str(second))
	line_of(one, second)
	one.wait_gone(rf"^ *{first} ")
	one.keys("Enter")
	one.wait(rf"/{second}: 1")
	one.keys("Escape")
	line_of(one, first)


def test_a_selected_process_that_ends_is_reported(top, fake, wait_for):
	pid = fake()
	one = top(f"--filter={pid}", "--interval=0.2")
	line_of(one, pid)
	one.keys("Enter")
	one.wait("1 Figures")

	os.kill(pid, signal.SIGKILL)

	one.wait(rf"{pid} python3 has ended")
	one.wait(rf"{pid} python3 \(has ended\)")
	one.keys("l")
	one.keys("q")
	one.wait("COMMAND")


# ---- the pane ----

HOARD = """
import sys
blocks = [bytes(3000) for _ in range(60000)]
del blocks
print("ready", flush=True)
sys.stdin.read()
"""


def test_the_pane_has_the_selected_process_over_time_at_80x24_and_160x50(top, ctl, spawn, env, awake, tmp_path):
	script = tmp_path / "train.py"
	script.write_text(HOARD)
	settings = env(MIN_MB=0, SLACK_MB=100000, SETTLE_MS=3600000, BUDGET_PCT=0)
	process = spawn([PYTHON, str(script), "--fast"], dict(settings, PYTHONMALLOC="malloc"))
	assert process.stdout.readline() == "ready\n"
	awake(process.pid, settings)
	one = top(f"--filter={process.pid}", "--interval=0.2", size=(80, 24))

	one.wait(rf"^── {process.pid} train.py --fast ─ returned 0, last none")
	one.wait(rf"^ *{process.pid} .* train.py")
	one.wait(r"^ +\d+ MB┤")
	one.wait(r"^ RSS \d\d\dM +▆live .*▆reusable 1\d\dM +▆files .*▆other ")
	one.keys("h", "y")
	one.wait(r"^ +0└[─┴]*h[─┴h]*$")
	one.wait(rf"^── {process.pid} .* returned 1\d\dM, last -1\d\dM \d+s ago: request")
	one.wait(r"mtctl top  1 process, 1\d\dM returned, ")
	assert all(len(line) <= 80 for line in one.text().splitlines())

	one.resize(160, 50)
	one.wait(r"returned +1\d\d\.\d MB")
	one.wait(r"by +\d purges?, 0 light, 1 heavy$")
	one.wait(r"└[─┴]*h")
	one.keys("p")
	one.wait_gone("└")
	line_of(one, process.pid)
	assert re.search(rf"^ *{process.pid} .* train.py --fast$", ctl("ps").stdout, re.MULTILINE)


# ---- cleaning and settings ----

@pytest.mark.parametrize("keys, level", [(["l"], "light"), (["h", "y"], "heavy")])
def test_a_cleanup_brings_down_the_memory_of_a_real_hoard(top, spawn, env, awake, keys, level):
	settings = env(MIN_MB=0, SLACK_MB=100000, SETTLE_MS=3600000, BUDGET_PCT=0)
	process = spawn([PYTHON, "-c", HOARD], dict(settings, PYTHONMALLOC="malloc"))
	assert process.stdout.readline() == "ready\n"
	awake(process.pid, settings)
	one = top(f"--filter={process.pid}", "--interval=0.5")
	before = rss_of(one, process.pid)

	one.keys(*keys)

	said = one.wait(rf"{process.pid} python3: {level}, freed: RSS ([\d.]+) MB -> ([\d.]+) MB \(-[\d.]+ MB\)", timeout=40)
	assert float(said[1]) > 150 > 100 > float(said[2]) and before > 150
	one.wait(rf"^ *{process.pid} .*-\d+M +\d+[sm] request")
	assert rss_of(one, process.pid) < 100


def test_a_heavy_cleanup_is_made_only_after_yes(top, fake):
	pid = fake(freed_mb=10)
	one = top(f"--filter={pid}")
	line_of(one, pid)

	one.keys("c")
	one.wait(rf"Heavy cleanup of {pid} python3\? \(y/n\)")
	one.keys("n")
	one.wait_gone("Heavy cleanup of")
	one.keys("c", "y")
	one.wait("heavy, freed: RSS 300.0 MB -> 290.0 MB")
	one.keys("Enter", "2")
	one.wait(r"requests 1$")


def test_a_cleanup_whose_answer_takes_seconds_does_not_freeze_the_view(top, fake):
	pid = fake(slow_s=3, freed_mb=10)
	one = top(f"--filter={pid}")
	line_of(one, pid)

	one.keys("l")
	one.wait("light cleanup ...")
	start = time.monotonic()
	one.keys("?")
	one.wait("mtctl top: help")
	one.keys("q")
	one.wait("COMMAND")
	assert "freed" not in one.text() and time.monotonic() - start < 2.9
	one.wait("light, freed: RSS 300.0 MB -> 290.0 MB")


def test_a_second_cleanup_of_one_process_has_to_wait(top, fake):
	pid = fake(slow_s=1)
	one = top(f"--filter={pid}")
	line_of(one, pid)

	one.keys("l")
	one.wait("light cleanup ...")
	one.keys("l")
	one.wait(f"still waiting for process {pid}")
	one.wait("light, nothing to free")


def test_a_setting_is_checked_changed_and_shown(top, fake, wait_for):
	pid = fake()
	one = top(f"--filter={pid}")
	line_of(one, pid)

	def put(text, answer):
		one.keys("s")
		one.wait("NAME=VALUE:")
		one.type(text)
		one.keys("Enter")
		one.wait(answer)
	put("gc_ronds=3", "no setting 'gc_ronds'; did you mean 'gc_rounds'")
	put("allocator=system", "allocator can only be set before the program starts")
	put("gc_rounds=x", "gc_rounds=x: not valid; allowed: 0..")
	put("MT_GC_ROUNDS=5", "gc_rounds: 0 -> 5")
	one.keys("Enter", "3")
	one.wait(r"^ gc_rounds +5 +mtctl set +yes")


def test_a_setting_of_a_real_process(top, spawn, env, awake, stats):
	settings = env(MIN_MB=0)
	process = spawn([PYTHON, "-c", "import sys; sys.stdin.read()"], settings)
	awake(process.pid, settings)
	one = top(f"--filter={process.pid}")
	line_of(one, process.pid)

	one.keys("s")
	one.type("gc_rounds=4")
	one.keys("Enter")

	one.wait("gc_rounds: 0 -> 4")
	assert {"name": "gc_rounds", "value": "4", "origin": "mtctl set"} in stats(process.pid, settings)["settings"]


# ---- details ----

def test_details_have_figures_records_settings_and_devices(top, fake):
	pid = fake(cuda="pool", values={"gpu_reserved_bytes": 64 * MB, "gpu_idle_bytes": 16 * MB, "gpu_allocated_bytes": 48 * MB},
	           devices=[{"name": "A card", "pci": "0000:3b:00.0", "mode": "pool", "reserved_bytes": 64 * MB,
	                     "total_bytes": 1024 * MB, "free_bytes": 256 * MB}])
	one = top(f"--filter={pid}", size=(110, 60))
	assert "48.0M 64.0M" in line_of(one, pid)
	one.wait(r"GPU\[.*768M/1\.00G\]")

	one.keys("Enter")
	one.wait("^ allocator +jemalloc, libmtshim.so, embedded")
	one.wait(r"^ heap_live_bytes +200.0 MB +usable bytes")
	one.keys("2")
	one.wait("no cleanup yet")
	one.keys("Tab")
	one.wait(r"^ tick_ms +100 +environment")
	one.keys("Right")
	one.wait(r"GPU 0: A card \(0000:3b:00.0\), mode pool, 256.0 MB free of 1024.0 MB")
	one.keys("Escape")
	one.wait("COMMAND")


def test_details_lose_nothing_on_80_columns(top, fake):
	pid = fake(limit_source="/system.slice/docker-0123456789.scope/memory.max", values={"pressure_used_bytes": 50 * MB, "pressure_limit_bytes": 100 * MB})
	one = top(f"--filter={pid}", size=(80, 60))
	line_of(one, pid)

	one.keys("Enter")
	text = one.wait(r"^ pressure [^$]*?swap_bytes").string

	assert "/system.slice/docker-0123456789.scope/memory.max)" in text and re.search(r"highest resident set seen by the kernel\n +\(VmHWM\)$", text, re.M), text
	one.keys("2")
	one.wait(r"^ +WAITED +GC( +GPU BEFORE +AFTER +CACHES)?$")


def test_an_invalid_file_is_shown_as_refused(top, fake):
	pid = fake(broken=True)
	one = top(f"--filter={pid}")

	assert "refused" in line_of(one, pid)
	one.wait("the checksum of the stats file is wrong")
	one.keys("Enter")
	one.wait("^ refused: the checksum")


# ---- terminals ----

def test_it_follows_the_size_of_the_window(top, fake):
	pid = fake()
	one = top(f"--filter={pid}", size=(160, 50))
	one.wait("BUDG% PARTS +TREND")

	one.resize(40, 8)
	one.wait(rf"^ *{pid} +[\d.]+M .*fake_shim.py")
	one.wait_gone("TREND")
	one.resize(39, 7)
	one.wait("39x7: too small, 40x8 is needed")
	one.resize(3, 2)
	one.resize(80, 24)
	one.wait("PARTS")
	line_of(one, pid)


def tty_state(one):
	one.type("clear; stty -a | tr '\\n' ' '; echo stated")
	one.keys("Enter")
	return one.wait(r"(?s)speed.*?stated$")[0]


@pytest.mark.parametrize("end", ["C-c", "C-\\", "q", signal.SIGTERM, signal.SIGHUP])
def test_it_ends_cleanly_and_restores_the_terminal(screen, mtctl, fake, wait_for, end):
	pid = fake()
	one = screen()
	before = tty_state(one)
	one.type(f"{mtctl} top --filter={pid}; echo ended $?")
	one.keys("Enter")
	line_of(one, pid)

	if isinstance(end, str):
		one.keys(end)
	else:
		os.kill(int(subprocess.run(["pgrep", "-f", f"mtctl top --filter={pid}$"], capture_output=True, text=True,
		                           check=True).stdout), end)

	one.wait("^ended 0")
	assert tty_state(one) == before


def test_it_can_be_stopped_and_continued(top, fake):
	pid = fake()
	one = top(f"--filter={pid}")
	line_of(one, pid)

	one.keys("C-z")
	one.wait("Stopped")
	one.type("echo cooked; fg")
	one.keys("Enter")
	one.wait_gone("Stopped")
	line_of(one, pid)
	one.keys("?")
	one.wait("mtctl top: help")


def test_it_does_not_outlive_its_terminal(top, fake, wait_for):
	pid = fake()
	one = top(f"--filter={pid}")
	line_of(one, pid)
	looks = ["pgrep", "-f", f"mtctl top --filter={pid}$"]
	assert subprocess.run(looks, capture_output=True).returncode == 0

	one.call("kill-server")

	wait_for(lambda: subprocess.run(looks, capture_output=True).returncode == 1)


def test_colours_only_where_they_are_wanted(top, fake):
	pid = fake()
	coloured = top(f"--filter={pid}")
	line_of(coloured, pid)
	assert re.search(r"\x1b\[[\d;]*4[2-6]", coloured.text(colours=True))

	for words in ("NO_COLOR=1", "TERM=vt100"):
		one = top(f"--filter={pid}", prefix=f"env {words}")
		line_of(one, pid)
		assert not re.search(r"\x1b\[([\d;]*;)?[34][0-7]", one.text(colours=True)), words
		assert "\x1b[" in one.text(colours=True), "the selected line is still to be seen"


def test_without_utf8_everything_is_ascii(top, spawn, env):
	parent = spawn([PYTHON, "-c", "import os, sys\nos.fork()\nsys.stdin.read()"], env(MIN_MB=0))
	one = top(f"--filter={parent.pid}", prefix="env LC_ALL=C")
	one.keys("Escape")
	one.wait(r"`-python3 -c")

	assert one.text().isascii()


@pytest.mark.parametrize("term", ["dumb", "", "no-such-terminal"])
def test_a_terminal_that_cannot_move_the_cursor_is_refused(screen, mtctl, term):
	one = screen()
	one.type(f"TERM={term} {mtctl} top; echo ended $?")
	one.keys("Enter")

	one.wait("needs a terminal that can move the cursor")
	one.wait("mtctl ps")
	one.wait(f"^ended {USAGE}")


def test_without_a_terminal_it_says_so(ctl):
	got = ctl("top")

	assert (got.returncode, got.stdout) == (USAGE, "") and "top needs a terminal; `mtctl ps`" in got.stderr


# ---- --once and the command line ----

def test_once_prints_what_the_view_shows(ctl, top, fake):
	pid = fake(values={"uptime_ms": 100000})
	one = top(f"--filter={pid}", size=(120, 30))
	shown = line_of(one, pid).rstrip()

	printed = ctl("top", "--once", f"--filter={pid}", COLUMNS="120", LC_ALL="C.UTF-8")

	assert printed.returncode == 0 and printed.stderr == ""
	line = next(line for line in printed.stdout.splitlines() if line.split()[:1] == [str(pid)])
	# The trend has one look more here than there.
	# Of the bar its cells count: without a terminal it has no blocks.
	assert re.sub("[▁-█#~=. ]+", " ", line) == re.sub("[▁-█#~=. ]+", " ", shown)
	assert "\x1b" not in printed.stdout


def test_once_sorts_and_filters(ctl, fake):
	few, many = (fake(values={"rss_bytes": 9 * MB, "rss_anon_bytes": 9 * MB, "heap_live_bytes": 0, "heap_dirty_bytes": reusable * MB})
	             for reusable in (3, 9))

	printed = ctl("top", "--once", "--flat", "--sort=reusable", "--filter=fake_shim").stdout

	assert printed.index(f"{many} ") < printed.index(f"{few} ") and "flat by reusable" in printed
	assert f"{many} " not in ctl("top", "--once", f"--filter={few}").stdout


@pytest.mark.parametrize("words, said", [(["--sort=rs"], "did you mean 'rss'"), (["--interval=x"], "a duration from 100 ms to 24 h"),
                                         (["--no-such"], "top has no option '--no-such'"), (["1"], "usage: mtctl top")])
def test_a_wrong_use_is_told(ctl, words, said):
	got = ctl("top", *words)

	assert (got.returncode, got.stdout) == (USAGE, "") and said in got.stderr


def test_help_has_every_column_and_says_what_fragmentation_is(ctl):
	got = ctl("top", "--help")

	assert got.returncode == 0 and got.stdout.startswith("usage: mtctl top [options]\n")
	for column in ("rss", "frag", "gpu-idle", "budget", "trend", "command"):
		assert f"({column})" in got.stdout
	assert "neither live nor reusable" in got.stdout


# ---- hostile text ----

HOSTILE = "\x1b[2J\x1b]0;owned\x07\n\x9b31m\xff\xfe" + "A" * 4096


def test_hostile_names_do_not_reach_the_terminal(ctl, top, fake, spawn, env, awake, tmp_path):
	pid = fake(text="\x1b[31m\x07\nred")
	named = tmp_path / "named.c"
	named.write_text(r"""
#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	prctl(PR_SET_NAME, "\033[2J\n\233\377x");
	memset(argv[0], '\033', strlen(argv[0]));
	free(malloc(100));
	puts("ready"); fflush(stdout);
	return (int)read(0, argv, 1);
}
""")
	program = named.with_suffix("")
	subprocess.run(["gcc", "-o", program, named], check=True)
	settings = env(MIN_MB=0)
	process = spawn(["hostile-name", HOSTILE], settings, executable=str(program))
	assert process.stdout.readline() == "ready\n"

	for one_pid in (pid, process.pid):
		printed = ctl("top", "--once", f"--filter={one_pid}", LC_ALL="C").stdout
		assert printed.isascii() and not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", printed)
		one = top(f"--filter={one_pid}", size=(200, 40))
		line_of(one, one_pid)
		one.keys("Enter")
		one.wait("1 Figures")
		for tab in "1234":
			one.keys(tab)
			one.wait(rf"^ {one_pid} ")
			screen = one.text()
			assert "owned" not in one.call("display-message", "-p", "#{pane_title}").stdout.decode()
			assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", screen), tab
