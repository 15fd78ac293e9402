"""The cleanup signal: the program's view of it never differs from without the shim, bar that it no longer dies.

Most tests run the same program twice, without and with the shim, and compare all that it printed and how it ended.
"""
import os
import pathlib
import re
import signal
import subprocess
import textwrap

import pytest

from mtctl_helpers import ctl, plain  # noqa: F401 (fixtures)
from places import helper
from signals_scripts import SCRIPTS

PYTHON = "/usr/bin/python3"
USR1, USR2, RTMIN3 = int(signal.SIGUSR1), int(signal.SIGUSR2), int(signal.SIGRTMIN) + 3

# (the signal that is played with, MT_SIGNAL): wrapped, passed straight on, and no cleanup signal at all.
PAIRS = [(USR1, "USR1"), (USR1, None), (USR2, "USR1"), (USR2, "USR2"), (RTMIN3, "RTMIN+3"), (USR1, "none")]
ROWS = ["signal", "bsd_signal", "ssignal", "sysv_signal", "__sysv_signal", "sigset", "sigset_hold", "sigaction",
        "__sigaction", "sigignore", "siginterrupt", "restart", "view", "die_in_handler", "die_of_second_one_shot",
        "die_after_siginterrupt", "die_from_unblocking", "die_by_another_thread", "die_by_kill",
        "die_by_kill_after_one_shot", "set_by_another_thread", "wait",
        "jump", "one_shot_set_again", "many_wishes", "fork", "vfork", "vfork_one_shot", "clone", "atfork", "spawn"]
SURVIVE = ["kill", "raise_untouched", "queue", "fork_kill", "small_stack"]


@pytest.fixture
def table(compile_c):
	return compile_c("signals_table.c", helper("signals_rows_libc.c"), helper("signals_rows_life.c"))


@pytest.fixture
def same(run, bare, env):
	"""same(command, ...): fails unless the command prints and ends alike without and with the shim; answers how."""
	def steady(text):
		return re.sub(r"0x[0-9a-f]+", "0x", text)

	def run_both(command, MT_SIGNAL="USR1", timeout=60, **extra):
		plain = run(command, dict(bare, **extra), timeout)
		settings = {"SIGNAL": MT_SIGNAL} if MT_SIGNAL else {}
		shimmed = run(command, dict(env(MIN_MB=0, **settings), **extra), timeout)
		assert steady(shimmed.stdout) == steady(plain.stdout)
		assert steady(shimmed.stderr) == steady(plain.stderr)
		assert shimmed.returncode == plain.returncode
		return shimmed
	return run_both


@pytest.fixture
def cleanups(stats):
	"""cleanups(pid, env): how many heavy cleanups the signal has brought so far."""
	def count(pid, environment):
		records = stats(pid, environment)["records"]
		return sum(record["reason"] == "signal" and record["level"] == "heavy" for record in records)
	return count


def python(script):
	return [PYTHON, "-c", textwrap.dedent(script)]


# ---- C programs ----

def test_the_lists_here_name_every_row(table, run, bare):
	assert run([table, USR1, "list"], bare).stdout.split() == ROWS


@pytest.mark.parametrize("row", ROWS)
def test_a_row_reads_the_same(row, table, same):
	done = same([table, USR1, row])

	assert done.stdout
	assert done.returncode == (-USR1 if row.startswith("die_") else 0)


@pytest.mark.parametrize("number,setting", PAIRS)
def test_all_rows_in_forked_children_read_the_same(number, setting, table, same):
	done = same([table, number, "all"], MT_SIGNAL=setting)

	assert done.stdout.count("exit 0 signal 0") >= len(ROWS) - 5


@pytest.mark.slow
@pytest.mark.parametrize("first", ["handler", "default", "ignore", "interrupt"])
@pytest.mark.parametrize("row", ["view", "signal", "sigaction", "restart", "fork"])
def test_what_was_set_before_the_shim_started_still_holds(first, row, table, same):
	same([table, USR1, row], SIGNALS_BEFORE=first)


def test_a_default_put_back_before_the_shim_started_kills_at_raise(table, same):
	assert same([table, USR1, "raise_untouched"], SIGNALS_BEFORE="default").returncode == -USR1


@pytest.mark.parametrize("row", SURVIVE)
def test_what_killed_is_a_cleanup(row, table, run, bare, env):
	plain = run([table, USR1, row], bare)
	shimmed = run([table, USR1, row], env(MIN_MB=0))

	assert plain.returncode == -USR1 or "signal 10" in plain.stdout
	assert shimmed.returncode == 0, shimmed.stderr
	assert re.search(r"^alive", shimmed.stdout, re.MULTILINE)


def test_a_cleanup_keeps_errno(table, run, env):
	assert "alive, errno 77\n" in run([table, USR1, "kill"], env(MIN_MB=0)).stdout


@pytest.mark.parametrize("number,setting", [(USR2, "USR1"), (USR1, "USR2"), (USR1, "none"), (RTMIN3, "RTMIN+4")])
def test_other_signals_kill_as_ever(number, setting, table, same):
	assert same([table, number, "kill"], MT_SIGNAL=setting).returncode == -number


@pytest.mark.parametrize("setting", ["15", "2", "11"])
def test_a_signal_with_a_meaning_of_its_own_is_refused(setting, table, run, env):
	done = run([table, setting, "kill"], env(SIGNAL=setting))

	assert done.returncode == -int(setting)
	assert done.stderr.count("\n") == 1 and f"MT_SIGNAL={setting}: " in done.stderr


# ---- the disposition that the process publishes ----

@pytest.mark.parametrize("settings", [{"SIGNAL": "USR1"}, {}], ids=["set", "default"])
def test_the_published_disposition_names_the_handler(settings, spawn, compile_c, env, stats, wait_for):
	environment = env(MIN_MB=0, TICK_MS=20, **settings)
	program = spawn([compile_c("signals_disposition.c"), USR1], environment)

	def tell(word):
		program.stdin.write(word + "\n")
		program.stdin.flush()
		return program.stdout.readline().strip()

	assert tell("grow") == "default 0"
	for word, seen, state in [("default", "default", 1), ("handler", "handler", 5), ("ignore", "ignore", 4),
	                          ("default", "default", 1), ("raw", "handler", 5), ("default", "default", 1)]:
		assert tell(word) == f"{seen} 0"
		# The worker reads the disposition at a sample; in an idle process that may be every 5 s.
		wait_for(lambda: stats(program.pid, environment)["signal_disposition"] == state, 12, f"program {state} after {word}")
	os.kill(program.pid, USR1)
	assert tell("query") == "default 0"


COUNTS = """
#include <dlfcn.h>
#include <signal.h>
static int (*next)(int, const struct sigaction *, struct sigaction *);
int calls;
int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "sigaction");
	calls += sig == SIGUSR1;
	return next(sig, act, old);
}
"""


def test_a_disposition_that_does_not_change_is_not_read_again(tmp_path, run, env):
	"""A busy process writes a sample a second; none of them calls the sigaction of the library that comes next."""
	library = tmp_path / "libcounts.so"
	subprocess.run(["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, "-x", "c", "-"], input=COUNTS, text=True, check=True)
	script = f"""
		import ctypes, time
		calls = ctypes.c_int.in_dll(ctypes.CDLL({str(library)!r}), "calls")
		def work(seconds):
			end = time.monotonic() + seconds
			while time.monotonic() < end:
				held = [bytes(3000) for _ in range(5000)]
		work(1.5)
		before = calls.value
		work(2.5)
		print(before > 0, calls.value - before)
		"""

	got = run(python(script), dict(env(MIN_MB=0), LD_PRELOAD=f"{env()['LD_PRELOAD']}:{library}"))

	assert got.stdout == "True 0\n", got.stderr


# ---- storms ----

def storm(run, compile_c, environment, seconds, mode):
	done = run([compile_c("signals_storm.c"), USR1, seconds, 10000, mode], environment, seconds + 60)
	words = done.stdout.split()
	assert done.returncode == 0 and words, (done.returncode, done.stdout, done.stderr)
	return dict(zip(words[::2], map(int, words[1::2])))


@pytest.mark.parametrize("mode", ["none", "handler", "info", "flip"])
def test_a_storm_of_signals_under_malloc_load(mode, backend, run, compile_c, env):
	seen = storm(run, compile_c, env(MIN_MB=0, SIGNAL="USR1"), 1, mode)

	assert seen["allocated"] > 10000
	assert (seen["called"] > 0) == (mode != "none")
	assert (seen["flips"] > 100) == (mode == "flip")


@pytest.mark.long
@pytest.mark.parametrize("mode", ["none", "handler", "info", "flip"])
def test_a_long_storm_of_signals_under_malloc_load(mode, backend, run, compile_c, env):
	assert storm(run, compile_c, env(MIN_MB=0, SIGNAL="USR1"), 10, mode)["allocated"] > 10000


# ---- Python ----

@pytest.mark.parametrize("name", SCRIPTS)
def test_python_sees_the_same(name, same):
	assert same(python(SCRIPTS[name])).returncode in (0, -USR1)


def test_multiprocessing_spawn_sees_the_same(tmp_path, same):
	script = tmp_path / "spawned.py"
	script.write_text(textwrap.dedent("""
		import multiprocessing, os, signal
		def work(queue):
			before = signal.getsignal(signal.SIGUSR1)
			signal.signal(signal.SIGUSR1, lambda number, frame: queue.put(("child", before is signal.SIG_DFL)))
			os.kill(os.getpid(), signal.SIGUSR1)
		if __name__ == "__main__":
			context = multiprocessing.get_context("spawn")
			queue = context.Queue()
			child = context.Process(target=work, args=(queue,))
			child.start()
			print(queue.get(timeout=30))
			child.join()
			print(child.exitcode)
	"""))
	assert same([PYTHON, script]).stdout == "('child', True)\n0\n"


BUSY = """
	import faulthandler, os, signal, sys, threading, time
	held = [bytearray(1000) for _ in range(20000)]
	read_end, write_end = os.pipe()
	def handler(number, frame):
		os.write(1, b"handler\\n")  # print would meet itself in a print that is under way
	{setup}
	print("ready", flush=True)
	for line in sys.stdin:
		held = [bytearray(1000) for _ in range(20000)]
		print("echo", line.strip(), flush=True)
"""
SETUPS = {
	"untouched": ("", []),
	"handler": ("signal.signal(signal.SIGUSR1, handler)", ["handler"]),
	"put_back": ("signal.signal(signal.SIGUSR1, handler); signal.signal(signal.SIGUSR1, signal.SIG_DFL)", []),
	"faulthandler": ("faulthandler.register(signal.SIGUSR1, open(os.devnull, 'w'))", []),
	"chained": ("signal.signal(signal.SIGUSR1, handler);"
	            "faulthandler.register(signal.SIGUSR1, open(os.devnull, 'w'), chain=True)", ["handler"]),
}


def started(spawn, environment, setup):
	process = spawn(python(BUSY.format(setup=setup)), environment)
	assert process.stdout.readline() == "ready\n"
	return process


def echoes(process, word):
	process.stdin.write(word + "\n")
	process.stdin.flush()
	lines = []
	while not lines or not lines[-1].startswith("echo"):
		lines.append(process.stdout.readline().strip())
		assert lines[-1], f"the program is gone: {process.wait(10)}\n{process.stderr.read()}"
	assert lines[-1] == f"echo {word}"
	return lines[:-1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["untouched", "put_back"])
def test_kill_makes_a_heavy_cleanup(name, backend, spawn, env, awake, cleanups, wait_for):
	setup, expected = SETUPS[name]
	environment = env(MIN_MB=0, SIGNAL="USR1")
	process = started(spawn, environment, setup)
	awake(process.pid, environment)
	for turn in range(2):
		before = cleanups(process.pid, environment)
		os.kill(process.pid, signal.SIGUSR1)
		assert wait_for(lambda: cleanups(process.pid, environment) > before, 15, "a record of the cleanup")
		assert echoes(process, f"turn{turn}") == expected
	process.stdin.close()
	assert process.wait(20) == 0


@pytest.mark.parametrize("settings", [{"SIGNAL": "USR1"}, {}], ids=["set", "default"])
@pytest.mark.parametrize("name", ["handler", "faulthandler", "chained"])
def test_a_signal_to_a_handler_of_the_program_is_the_programs_alone(name, settings, spawn, env, awake, cleanups, stats, ctl):
	setup, expected = SETUPS[name]
	environment = env(MIN_MB=0, **settings)
	process = started(spawn, environment, setup)
	awake(process.pid, environment)
	for turn in range(5):
		os.kill(process.pid, signal.SIGUSR1)
		assert echoes(process, f"turn{turn}") == expected
	assert ctl("trim", process.pid).returncode == 0
	assert cleanups(process.pid, environment) == 0
	assert stats(process.pid, environment)["signal_disposition"] == 5
	assert "the signal is the program's alone" in ctl("doctor", process.pid).stdout


QUEUES_TO_ITSELF = """
	import ctypes, os, signal
	signal.signal(signal.SIGUSR1, print)
	signal.signal(signal.SIGUSR1, signal.SIG_DFL)
	ctypes.CDLL(None).sigqueue(os.getpid(), signal.SIGUSR1, None)
"""


def test_a_program_that_queues_the_default_signal_to_itself_dies_of_it(run, env):
	"""As one that raises it."""
	assert run(python(QUEUES_TO_ITSELF), env(MIN_MB=0)).returncode == -signal.SIGUSR1


def test_an_ignored_signal_is_no_cleanup(spawn, env, awake, cleanups, stats):
	environment = env(MIN_MB=0)
	process = started(spawn, environment, "signal.signal(signal.SIGUSR1, signal.SIG_IGN)")
	awake(process.pid, environment)
	for turn in range(5):
		os.kill(process.pid, signal.SIGUSR1)
		assert echoes(process, f"turn{turn}") == []
	assert cleanups(process.pid, environment) == 0
	assert stats(process.pid, environment)["signal_disposition"] == 4


def test_a_forked_child_cleans_up_for_itself(spawn, env, awake, cleanups, wait_for):
	environment = env(MIN_MB=0)
	script = """
		import os, sys, time
		held = [bytearray(1000) for _ in range(20000)]
		if (child := os.fork()) == 0:
			for _ in range(600):
				held = [bytearray(1000) for _ in range(20000)]
				time.sleep(0.1)
			os._exit(0)
		print(child, flush=True)
		sys.stdin.read()
	"""
	parent = spawn(python(script), environment)
	child = int(parent.stdout.readline())
	awake(child, environment)
	awake(parent.pid, environment)
	os.kill(child, signal.SIGUSR1)
	assert wait_for(lambda: cleanups(child, environment) == 1, 15, "a record in the child")
	assert cleanups(parent.pid, environment) == 0
	assert parent.poll() is None


# ---- shells ----

SHELL = {
	"trap": "trap 'echo got' USR1; kill -USR1 $$; kill -USR1 $$; trap - USR1; echo end",
	"trap_exits": "trap 'echo got; exit 7' USR1; kill -USR1 $$; echo not reached",
	"ignoring_is_inherited": f"trap '' USR1; kill -USR1 $$; {PYTHON} -c 'import os, signal;"
	                         "print(signal.getsignal(signal.SIGUSR1)); os.kill(os.getpid(), signal.SIGUSR1)'; echo end",
	"a_trap_is_not_inherited": f"trap 'echo got' USR1; {PYTHON} -c 'import signal; print(signal.getsignal(signal.SIGUSR1))'",
	"lists_traps": "trap 'echo got' USR1; trap; trap '' USR1; trap; trap - USR1; trap",
	"subshells": "trap 'echo got' USR1; (trap; kill -USR1 $$; echo sub); : ; echo end",
}


@pytest.mark.parametrize("shell", ["/bin/bash", "/bin/sh"])
@pytest.mark.parametrize("name", SHELL)
def test_shells_see_the_same(name, shell, same):
	same([shell, "-c", SHELL[name]])


def test_perl_sees_the_same(same):
	same(["perl", "-e", 'print defined $SIG{USR1} ? "set" : "unset", "\\n"; $SIG{USR1} = sub { print "got $_[0]\\n" };'
	      'kill "USR1", $$; sleep 0; local $SIG{USR1} = "IGNORE"; kill "USR1", $$; print "end\\n"'])


def test_timeout_of_a_program_with_a_trap(same):
	done = same(["timeout", "-s", "USR1", "1", "/bin/bash", "-c",
	             # bash tells of a sleep that the signal, which is the group's, happens to meet
	             "exec 2> /dev/null; trap 'echo got; exit 3' USR1; while :; do read -t 0.1 < /dev/zero; sleep 0.05; done"])
	assert done.stdout == "got\n" and done.returncode == 124


def test_timeout_with_usr1_is_the_known_change(run, bare, env):
	"""Said in README: such a timeout asks for a cleanup; with -k it ends the program all the same."""
	command = ["timeout", "-s", "USR1", "-k", "1", "1", "sleep", "30"]
	assert run(command, bare).returncode == 124
	assert run(command, env(MIN_MB=0)).returncode in (137, -9)  # timeout kills its whole group
