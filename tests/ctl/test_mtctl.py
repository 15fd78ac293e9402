"""mtctl's command line, `run` and `check`, and the real shim seen through it."""
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import time

import pytest

import fake_shim
from mtctl_helpers import DONE, FREED, NO_PROCESS, NOTHING, NOT_SHIMMED, PYTHON, ROOT, USAGE
from mtctl_helpers import ctl, fake, plain  # noqa: F401 (fixtures)


# ---- the command line ----

def test_alone_it_prints_a_short_help_with_an_example(ctl):
	got = ctl()

	assert got.returncode == 0 and got.stderr == ""
	assert "mtctl run --gc-rounds=5 -- python3 train.py" in got.stdout


@pytest.mark.parametrize("command", ["run", "ps", "stat", "trim", "check", "round", "set", "reset-peak", "options",
                                     "presets", "sites", "snapshot", "doctor", "diagnose", "advise", "budget", "fit", "export", "record"])
def test_every_command_has_help(ctl, command):
	got = ctl(command, "--help")

	assert got.returncode == 0 and got.stdout.startswith(f"usage: mtctl {command} ") and got.stderr == ""
	assert ctl("help", command).stdout == got.stdout
	wrong = ctl(command, "--no-such-option")
	assert wrong.returncode == USAGE and wrong.stderr.startswith("mtctl: ") and wrong.stdout == ""


def test_an_unknown_command_suggests_the_nearest(ctl):
	got = ctl("tirm")

	assert (got.returncode, got.stdout) == (USAGE, "")
	assert got.stderr == "mtctl: no command 'tirm'; did you mean 'trim'?\n"
	assert ctl("something-else").returncode == USAGE


def test_the_version_is_that_of_the_makefile(ctl):
	makefile = (ROOT / "Makefile").read_text()

	assert ctl("--version").stdout == "mtctl " + re.search(r"^VERSION\s*:= (\S+)", makefile, re.MULTILINE)[1] + "\n"


@pytest.mark.parametrize("pid", ["0", "-1", "", "99999999999999999999"])
def test_what_is_no_pid_is_a_wrong_use(ctl, pid):
	for words in (["stat", "--", pid], ["trim", "--", pid], ["round", "--", pid], ["doctor", "--", pid]):
		assert ctl(*words).returncode == USAGE


@pytest.mark.parametrize("command", ["stat", "trim", "round", "reset-peak", "sites", "doctor", "advise"])
def test_an_unshimmed_process_is_left_alone(ctl, bare, spawn, command):
	"""A signal would kill it."""
	sleeper = spawn(["/bin/sleep", "60"], bare)

	got = ctl(command, sleeper.pid)

	assert got.returncode == NOT_SHIMMED
	assert "does not carry the shim" in got.stderr
	time.sleep(0.1)
	assert sleeper.poll() is None


def test_a_process_that_is_gone(ctl, bare, spawn):
	gone = spawn(["/bin/true"], bare)
	gone.wait()

	for command in ("trim", "check", "stat", "round", "diagnose"):
		got = ctl(command, gone.pid)
		assert got.returncode == NO_PROCESS and got.stderr.startswith(f"mtctl: no process {gone.pid}; `mtctl ps`")


def test_colours_only_on_a_terminal_and_not_with_no_color(mtctl, plain):
	def on_terminal(**environment):
		ours, theirs = pty.openpty()
		subprocess.run([mtctl], env=dict(plain, TERM="xterm", **environment), stdout=theirs, check=True)
		os.close(theirs)
		text = b""
		try:
			# The terminal hands on what it has been given piece by piece, also after the writer's end; then EIO.
			while piece := os.read(ours, 65536):
				text += piece
		except OSError:
			pass
		os.close(ours)
		return text

	assert b"\x1b[1m" in on_terminal()
	assert b"\x1b" not in on_terminal(NO_COLOR="1")
	assert "\x1b" not in subprocess.run([mtctl], env=plain, capture_output=True, text=True, check=True).stdout


def test_run_says_one_line_on_a_terminal_alone(mtctl, shim, plain):
	def said(*words, program="/bin/true", code=0):
		ours, theirs = pty.openpty()
		done = subprocess.run([mtctl, "run", *words, "--", program], env=dict(plain, MTSHIM_LIBRARY=str(shim)), stderr=theirs, check=False)
		assert done.returncode == code
		os.close(theirs)
		try:
			return os.read(ours, 65536).decode()
		except OSError:
			return ""
		finally:
			os.close(ours)

	assert re.fullmatch(rf"mtctl: process (\d+) runs under mtshim \S+; in another terminal: {mtctl} stat \1\r\n", said())
	assert said("--quiet") == ""
	assert said(program="/nonexist", code=127) == "mtctl: /nonexist: No such file or directory\r\n"
	assert said(program="no-such-program", code=127) == "mtctl: no-such-program: No such file or directory\r\n"
	assert said(program="/etc/passwd", code=126) == "mtctl: /etc/passwd: Permission denied\r\n"
	assert subprocess.run([mtctl, "run", "--", "/bin/true"], env=dict(plain, MTSHIM_LIBRARY=str(shim)), capture_output=True).stderr == b""


def test_the_overview_has_each_command_once_in_a_group_and_the_exit_codes(ctl):
	overview = ctl("help").stdout
	groups = re.split(r"^(start|watch|act|explain|export|exit codes)$", overview, flags=re.MULTILINE)
	listed = {title: re.findall(r"^  ([a-z][a-z-]*) ", text, re.MULTILINE) for title, text in zip(groups[1::2], groups[2::2])}

	assert [*listed] == ["start", "watch", "act", "explain", "export", "exit codes"]
	commands = re.findall(r'X\((?:\w+, )?"([a-z][a-z-]*)", "', (ROOT / "ctl/command.h").read_text())
	assert sorted(sum(listed.values(), [])[:-4]) == sorted(commands), "the last four are examples"
	assert re.findall(r"^ +(\d+)  ", overview, re.MULTILINE) == [str(code) for code in (*range(7), 126, 127)]


def test_the_help_of_a_command_has_its_options_then_the_exit_codes_then_the_settings(ctl):
	text = ctl("run", "--help").stdout
	assert -1 < text.index("--quiet") < text.index("\nexit codes:\n") < text.index("\nsettings of the program") < text.index("--gc-rounds=")
	assert "  5  the process does not carry the shim" in ctl("stat", "--help").stdout
	assert "  5  " not in ctl("options", "--help").stdout and "not even one client fits" in ctl("fit", "--help").stdout


def test_output_that_cannot_be_written_is_a_failure(mtctl, plain):
	with open("/dev/full", "w") as full:
		got = subprocess.run([mtctl, "options"], env=plain, stdout=full, stderr=subprocess.PIPE, text=True)

	assert got.returncode != 0 and got.stderr == "mtctl: cannot write the output\n"


@pytest.mark.parametrize("command", ["stat", "doctor", "look"])
def test_a_closed_stdout_is_said_as_such(mtctl, plain, run, command):
	"""The next file that is opened would become the stdout."""
	got = run(["bash", "-c", 'exec "$@" >&-', "bash", mtctl, command, os.getpid()], plain)

	if command == "look":
		assert (got.returncode, got.stderr) == (2, "mtctl: cannot write the output\n")
	assert "may not be looked into" not in got.stderr and got.returncode != 6


def test_a_program_that_is_started_finds_a_closed_stdout_closed(mtctl, plain, run):
	got = run(["bash", "-c", 'exec "$0" run -- sh -c "[ ! -e /proc/self/fd/1 ]" >&-', mtctl], plain)

	assert got.returncode == 0


# ---- options and presets ----

def test_the_markdown_table_has_a_row_for_every_setting(ctl):
	listed = json.loads(ctl("options", "--json").stdout)
	rows = ctl("options", "--markdown").stdout.splitlines()

	for setting in listed["options"]:
		row = next(row for row in rows if row.startswith(f"| `{setting['environment']}` |"))
		assert len(re.split(r"(?<!\\)\|", row)) == 7 and setting["help"] in row
	assert {"environment": "MALLOC_ARENA_MAX", "name": "arena_max"} in listed["aliases"]
	assert any("NVFLARE_CUDA_EMPTY_CACHE" in row and "MT_CUDA_EMPTY_CACHE" in row for row in rows)


def test_presets_are_those_of_the_table(ctl):
	presets = {preset["name"]: {one["name"]: one["value"] for one in preset["settings"]}
	           for preset in json.loads(ctl("presets", "--json").stdout)["presets"]}

	assert presets["server-wide"] == {"arena_max": "8", "gc_rounds": "5"}
	listed = json.loads(ctl("options", "--json").stdout)["options"]
	words = next(one["words"] for one in listed if one["name"] == "preset")
	assert set(presets) == set(words.split("|")) - {"none"}


# ---- run ----

@pytest.fixture
def library(tmp_path):
	"""An empty shared library with the shim's name: preloading it changes nothing."""
	path = tmp_path / "somewhere" / "libmtshim.so"
	path.parent.mkdir()
	subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", path], check=True)
	return path


def environment_under(ctl, library, *words, **environment):
	got = ctl("run", *words, "--", "/usr/bin/env", "-0", MTSHIM_LIBRARY=str(library), **environment)
	assert got.returncode == 0, got.stderr
	return dict(entry.split("=", 1) for entry in got.stdout.split("\0") if entry)


def test_run_sets_what_its_options_say(ctl, library):
	seen = environment_under(ctl, library, "--gc-rounds=5", "--tick-ms", "200", "--exit-cleanup", "--preset", "client",
	                         "--round=timer:30", "--profile=off", MT_GC_ROUNDS="1")

	assert seen["LD_PRELOAD"] == str(library)
	assert (seen["MT_GC_ROUNDS"], seen["MT_TICK_MS"], seen["MT_EXIT_CLEANUP"]) == ("5", "200", "1")
	assert (seen["MT_PRESET"], seen["MT_ROUND"], seen["MT_PROFILE"]) == ("client", "timer:30", "off")


def test_run_keeps_what_was_preloaded_behind_it_and_never_two_shims(ctl, library):
	# The loader complains about what is not there and goes on.
	before = "/no/such/a.so:/old/place/libmtshim.so  /no/such/b.so:libmtshim.so"

	assert environment_under(ctl, library, LD_PRELOAD=before)["LD_PRELOAD"] == \
		f"{library}:/no/such/a.so:/no/such/b.so"


def test_a_copy_of_another_name_is_known_as_the_shim(ctl, library, shim, tmp_path):
	"""Two shims were loaded, and doctor said that none was in LD_PRELOAD, beside ps that showed the processes."""
	copy = shutil.copy(shim, tmp_path / "other.so")

	assert environment_under(ctl, library, LD_PRELOAD=str(copy))["LD_PRELOAD"] == str(library)
	assert "LD_PRELOAD: the shim is in it" in ctl("doctor", LD_PRELOAD=str(copy)).stdout


def test_doctor_does_not_say_that_a_library_that_is_not_there_is_carried(ctl):
	seen = ctl("doctor", LD_PRELOAD="/no/such/libmtshim.so").stdout

	assert "/no/such/libmtshim.so cannot be read" in seen and "LD_PRELOAD: the shim is not in it" in seen


def test_run_makes_the_path_absolute(ctl, library, monkeypatch):
	monkeypatch.chdir(library.parent.parent)

	assert environment_under(ctl, "somewhere/libmtshim.so")["LD_PRELOAD"] == str(library)


def test_run_finds_the_library_beside_itself_and_in_lib(mtctl, plain, library, tmp_path):
	for place in ("bin", "lib"):
		home = tmp_path / place
		(home / "bin").mkdir(parents=True)
		(home / "lib").mkdir()
		shutil.copy(mtctl, home / "bin" / "mtctl")
		shutil.copy(library, home / place / "libmtshim.so")
		got = subprocess.run([home / "bin" / "mtctl", "run", "sh", "-c", "echo $LD_PRELOAD"], env=plain,
		                     capture_output=True, text=True)
		assert got.stdout == f"{home / place / 'libmtshim.so'}\n", got.stderr


def test_run_gives_the_programs_exit_code_and_its_arguments(ctl, library):
	where = {"MTSHIM_LIBRARY": str(library)}

	assert ctl("run", "sh", "-c", "exit 42", **where).returncode == 42
	assert ctl("run", "--", "echo", "--gc-rounds=x", "--help", **where).stdout == "--gc-rounds=x --help\n"
	assert ctl("run", "sh", "-c", "echo $1", "sh", "--help", **where).stdout == "--help\n"
	assert ctl("run", "--", "/no/such/program", **where).returncode == 127
	assert ctl("run", "--", "/etc", **where).returncode == 126
	assert ctl("run", **where).returncode == USAGE


@pytest.mark.parametrize("option", ["--gc-rounds=-1", "--gc-rounds=x", "--gc-rounds=", "--tick-ms=9",
                                    "--budget-pct=101", "--allocator=glibc", "--exit-cleanup=maybe", "--round=timer:0",
                                    "--round=timer", "--signal=KILLME", "--signal=65",
                                    "--only=" + "x" * 256, "--gc-rounds",
                                    "--tick-ms=99999999999999999999999"])
def test_run_refuses_values_that_cannot_be(ctl, library, option):
	got = ctl("run", option, "--", "echo", "ran", MTSHIM_LIBRARY=str(library))

	assert (got.returncode, got.stdout) == (USAGE, "")
	assert got.stderr.startswith("mtctl: ")


@pytest.mark.parametrize("option", ["--allocator=SYSTEM", "--signal=SIGUSR2", "--signal=RTMIN+3", "--signal=none",
                                    "--round=auto", "--round=timer:86400", "--budget-pct=0", "--only="])
def test_run_takes_values_at_the_edge(ctl, library, option):
	assert ctl("run", option, "--", "echo", "ran", MTSHIM_LIBRARY=str(library)).stdout == "ran\n"


def test_run_refuses_a_library_that_the_loader_could_not_find(ctl, library, tmp_path):
	blank = tmp_path / "with blank"
	blank.mkdir()
	shutil.copy(library, blank)

	for path in (blank / "libmtshim.so", "/no/such/libmtshim.so"):
		got = ctl("run", "--", "echo", "ran", MTSHIM_LIBRARY=str(path))
		assert (got.returncode, got.stdout) == (126, "") and got.stderr.startswith("mtctl: ")


def test_run_leaves_the_lib_of_a_path_to_the_loader(ctl, library, tmp_path):
	libc = pathlib.Path(re.search(r"\S+/libc\.so\.6", pathlib.Path("/proc/self/maps").read_text())[0]).parent
	folder = tmp_path / re.sub("^/(usr/)?", "", str(libc))
	folder.mkdir(parents=True)
	shutil.copy(library, folder)

	for name in ("$LIB", "${LIB}"):
		got = ctl("run", "--", "/bin/cat", "/proc/self/maps", MTSHIM_LIBRARY=f"{tmp_path}/{name}/libmtshim.so")
		assert f" {folder}/libmtshim.so\n" in got.stdout, got


# ---- check ----

def test_check_compares_with_the_threshold(ctl):
	low, high = ctl("check", "--threshold", "0"), ctl("check", "--threshold=100")

	assert (low.returncode, high.returncode) == (1, 0)
	assert re.match(r"RAM at \d+\.\d % of \d+\.\d [MG]B \((machine|cgroup limit)\), at or above the threshold of 0 %\n",
	                low.stdout)
	seen = json.loads(ctl("check", os.getpid(), "--json").stdout)
	assert seen["used_pct"] == pytest.approx(100 * seen["used_bytes"] / seen["limit_bytes"])
	for wrong in ("101", "-1", "x", "nan", ""):
		assert ctl("check", "--threshold=" + wrong).returncode == USAGE


# ---- the real shim ----

def test_a_real_process_from_the_cradle(puppet, env, awake, control):
	settings = env(MIN_MB=0, GC_ROUNDS=3, SLACK_MB=1000, SETTLE_MS=3600000)
	actor = puppet(settings)
	actor.tell("alloc 10 100 200")
	seen = awake(actor.pid, settings)

	assert {name.removesuffix("_thousandths") for name in fake_shim.FIELDS} <= set(seen)
	assert {"name": "gc_rounds", "value": "3", "origin": "environment"} in seen["settings"]
	listed = json.loads(control(settings, "ps", "--json").stdout)["processes"]
	assert next(one for one in listed if one["pid"] == actor.pid)["state"] == "awake"
	assert control(settings, "set", actor.pid, "gc_rounds=4").stdout == "gc_rounds: 3 -> 4\n"
	assert control(settings, "reset-peak", actor.pid).returncode == 0
	assert control(settings, "round", actor.pid).returncode == 0
	doctor = control(settings, "doctor", actor.pid)
	assert doctor.returncode in (0, 1) and "gc_rounds" in doctor.stdout and "(mtctl set)" in doctor.stdout


def test_a_real_trim_frees_and_then_finds_nothing(puppet, env, awake, control):
	settings = env(MIN_MB=0, SLACK_MB=1000, SETTLE_MS=3600000, BUDGET_PCT=0)
	actor = puppet(settings)
	actor.tell("alloc 20000 2000 4000")
	actor.tell("keep 20")
	awake(actor.pid, settings)

	first = control(settings, "trim", actor.pid)
	again = control(settings, "trim", actor.pid, "--check")

	assert first.returncode == FREED, first.stdout + first.stderr
	assert again.returncode == NOTHING, again.stdout + again.stderr
	assert re.search(r"RSS +\d+\.\d MB +\d+\.\d MB +-\d+\.\d MB", first.stdout)


def test_run_puts_a_real_program_under_the_shim(mtctl, shim, bare, mt_dir, spawn, control, awake):
	plain = dict(bare, MT_DIR=str(mt_dir), MTSHIM_LIBRARY=str(shim))
	process = spawn([mtctl, "run", "--min-mb=0", "--idle-ms=250", "--", PYTHON, "-c",
	                 "import sys; print('ready', flush=True); sys.stdin.read()"], plain)
	assert process.stdout.readline() == "ready\n"

	seen = awake(process.pid, plain)

	assert {"name": "idle_ms", "value": "250", "origin": "environment"} in seen["settings"]


def test_a_small_real_process_is_asleep(env, spawn, control):
	settings = env()
	sleeper = spawn(["/bin/sleep", "60"], settings)
	time.sleep(0.3)

	got = control(settings, "trim", sleeper.pid)

	assert got.returncode == DONE and "asleep: it holds less anonymous memory than MT_MIN_MB" in got.stdout
	assert sleeper.poll() is None
