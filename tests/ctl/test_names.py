"""Which processes the words of a command line mean: ids, lists, names; whose process it is where that fails."""
import json
import os
import pathlib
import re

import pytest

from mtctl_helpers import DONE, FAKE, MB, NO_PROCESS, NOT_PERMITTED, NOT_SHIMMED, PYTHON, USAGE, ctl, fake, plain  # noqa: F401

SCRIPT = "fake_shim.py"


def test_a_process_is_found_by_the_name_of_its_script(ctl, fake):
	pid = fake(values={"heap_live_bytes": 77 * MB})

	seen = ctl("stat", SCRIPT, "--json", "--cached")

	assert (seen.returncode, seen.stderr) == (DONE, "") and json.loads(seen.stdout)["pid"] == pid


def test_a_command_for_one_process_lists_all_that_have_the_name(ctl, fake):
	pids = sorted([fake(), fake()])

	got = ctl("stat", SCRIPT)

	assert (got.returncode, got.stdout) == (USAGE, "")
	assert f"'{SCRIPT}' is the name of 2 processes; give the id of one" in got.stderr
	assert re.findall(r"^mtctl: +(\d+)  \S.*fake_shim", got.stderr, re.MULTILINE) == [str(pid) for pid in pids]


@pytest.mark.parametrize("words", [[SCRIPT], ["{0},{1}"], ["{0}", "{1}"], ["{0},{1}", SCRIPT, "{0}"]], ids=["name", "list", "words", "all"])
def test_a_command_for_several_takes_names_and_lists(ctl, fake, words):
	pids = sorted([fake(freed_mb=5), fake(freed_mb=5)])
	words = [word.format(*pids) for word in words]

	trimmed, changed = json.loads(ctl("trim", *words, "--json").stdout), ctl("set", *words, "gc_rounds=7")

	assert sorted(one["pid"] for one in trimmed["processes"]) == pids
	assert sorted(int(pid) for pid in re.findall(r"^process (\d+) .*: gc_rounds: \S+ -> 7$", changed.stdout, re.MULTILINE)) == pids


def test_one_wrong_word_and_nothing_is_done(ctl, fake):
	pid = fake(freed_mb=5)

	assert ctl("trim", pid, "no-such-name").returncode == NO_PROCESS
	assert json.loads(ctl("stat", pid, "--json", "--cached").stdout)["requests_count"] == 0


@pytest.mark.parametrize("name", ["9 x.py", "a,b.py", "-x.py"])
def test_a_name_that_cannot_be_given_is_answered_with_the_process_id(ctl, plain, spawn, tmp_path, name):
	(tmp_path / name).write_text("print('ready', flush=True)\ninput()\n")
	process = spawn([PYTHON, tmp_path / name], plain)
	assert process.stdout.readline() == "ready\n"

	for command in ("stat", "trim"):
		said = ctl(command, "--", name).stderr
		assert f"'{name}' cannot be given as a name: give the process id\n" in said
		assert re.search(rf"^mtctl: +{process.pid}  ", said, re.MULTILINE)


def test_a_mistyped_name_suggests_the_nearest(ctl, fake):
	fake()

	got = ctl("stat", "fake_shin.py")

	assert got.returncode == NO_PROCESS and got.stderr == f"mtctl: no process 'fake_shin.py'; did you mean '{SCRIPT}'?\n"


def test_a_process_without_the_shim_is_named_with_its_user_and_the_way_to_start_it(ctl, bare, spawn, wait_for):
	sleeper = spawn(["/bin/sleep", "60"], bare)
	wait_for(lambda: open(f"/proc/{sleeper.pid}/cmdline").read().startswith("/bin/sleep\0"))

	got = ctl("stat", sleeper.pid)

	assert got.returncode == NOT_SHIMMED
	assert re.fullmatch(rf"mtctl: process {sleeper.pid} \(sleep\) of \S+ does not carry the shim; a start under it: mtctl run -- /bin/sleep 60\n",
	                    got.stderr)


def may_look_into(pid):
	try:
		pathlib.Path(f"/proc/{pid}/maps").read_bytes()
		return True
	except PermissionError:
		return False


@pytest.mark.skipif(may_look_into(1), reason="root may look into every process")
@pytest.mark.parametrize("command", ["stat", "trim", "diagnose"])
def test_a_process_of_another_user_is_named_with_its_user(ctl, command):
	got = ctl(command, 1)

	assert got.returncode == NOT_PERMITTED
	advice = "root needs CAP_SYS_PTRACE here.*" if os.geteuid() == 0 else "run mtctl as root"
	assert re.fullmatch(rf"mtctl: process 1 \(\S+\) of root may not be looked into \(Permission denied\): {advice}\n", got.stderr)


def test_a_dry_run_says_what_could_go_and_asks_for_no_cleanup(ctl, fake):
	pid = fake(freed_mb=5, values={"rss_bytes": 300 * MB, "heap_live_bytes": 70 * MB, "heap_dirty_bytes": 40 * MB})

	text, seen = ctl("trim", pid, "--dry-run"), json.loads(ctl("trim", pid, "--dry-run", "--json").stdout)

	assert text.returncode == DONE and re.search(rf"{pid} +300\.0 MB +70\.0 MB +40\.0 MB +- ", text.stdout)
	assert seen["dry_run"] is True and seen["processes"][0]["heap_dirty_bytes"] == 40 * MB
	assert json.loads(ctl("stat", pid, "--json", "--cached").stdout)["records"] == []


def test_a_dry_run_of_a_purge_promises_neither_gpu_caches_nor_what_gc_frees(ctl, fake):
	pid = fake(freed_mb=5, values={"heap_dirty_bytes": 40 * MB})

	last = {word: ctl("trim", pid, "--dry-run", *word.split()).stdout.splitlines()[-1] for word in ("", "--light", "--purge")}

	assert last[""] == "REUSABLE and GPU IDLE would be returned, and what Python's gc frees if it is enabled; nothing was changed"
	assert last["--light"] == "REUSABLE would be returned, and what Python's gc frees if it is enabled; nothing was changed"
	assert last["--purge"] == "REUSABLE would be returned; nothing was changed"


def test_an_mt_dir_of_ones_own_shows_what_is_in_it_alone(ctl, fake, plain, spawn, mt_dir, tmp_path):
	"""A test or a container must not see, or clean up, what others run."""
	here, folder = fake(freed_mb=5), mt_dir / "other"
	folder.mkdir(mode=0o700)
	other = spawn([PYTHON, FAKE, tmp_path / "libmtshim.so", folder, json.dumps({"freed_mb": 5})], dict(plain, MT_DIR=str(folder)))
	assert other.stdout.readline() == "ready\n"

	def pids(*words, **environment):
		return {one["pid"] for one in json.loads(ctl(*words, "--json", **environment).stdout)["processes"]}

	assert pids("ps") == pids("trim", "--all") == pids("ps", "--tree") - {os.getpid()} == {here}
	assert pids("ps", MT_DIR=str(folder)) == {other.pid}
	assert {here, other.pid} <= pids("ps", MT_DIR=""), "without one, all of the user's"
	assert json.loads(ctl("stat", other.pid, "--json", "--cached").stdout)["pid"] == other.pid, "an id is found everywhere"
