"""`mtctl look`: processes without the shim, seen from outside."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from json_schema import fits
from mtctl_helpers import MB, NO_PROCESS, NOT_PERMITTED, PYTHON, USAGE, ctl, fake, plain  # noqa: F401

SOURCE = pathlib.Path(__file__).parent / "look_arenas.c"


@pytest.fixture
def looked(ctl):
	def look(pid):
		done = ctl("look", pid, "--json")
		assert done.returncode == 0, done.stderr
		return fits("look", done.stdout)
	return look


def test_the_parts_of_rss_and_the_arenas_are_those_of_the_program(looked, ctl, spawn, plain, compile_c):
	for _ in range(5):
		process = spawn([compile_c(SOURCE, "-pthread")], plain, stdin=subprocess.PIPE)
		assert process.stdout.readline() == "ready\n"
		said = looked(process.pid)
		parts = said["parts"]
		if parts["mapped_bytes"] > MB:
			break  # else the kernel has put the large block beside an arena, and made one mapping of both

	assert sum(parts.values()) == said["rss_bytes"]
	assert parts["brk_bytes"] > 15 * MB and 60 * MB < parts["mapped_bytes"] < 70 * MB
	assert (said["allocator"]["name"], said["allocator"]["arena_heaps_count"]) == ("glibc", 3)
	assert said["threads_count"] == 4 and not said["shimmed"]
	assert said["trim"]["most_bytes"] == parts["brk_bytes"] + parts["arenas_bytes"]
	text = ctl("look", process.pid).stdout
	assert "does not carry the shim" in text and "cannot be told from outside" in text
	assert f"mtctl run -- {process.args[0]}" in text


def test_the_first_thing_said_is_whether_it_is_a_candidate(looked, ctl, spawn, plain, fake):
	programs = {verdict: spawn([PYTHON, "-c", f"x = bytearray(b'x') * {size}\nprint('ready', flush=True)\ninput()"], plain,
	                           stdin=subprocess.PIPE) for verdict, size in (("likely", 60 * MB), ("unlikely", 1))}
	for verdict, process in programs.items():
		assert process.stdout.readline() == "ready\n"

		said = looked(process.pid)["candidate"]

		assert said["verdict"] == verdict and (said["reach_bytes"] > 60 * MB) == (verdict == "likely"), said
		assert ctl("look", process.pid).stdout.splitlines()[1].startswith(f"A candidate for the shim? {verdict}: ")
	assert looked(fake())["candidate"] == {"verdict": "no", "reach_bytes": 0, "text": "it carries the shim already"}


def test_python_is_named_with_its_version_and_its_malloc(looked, spawn, plain):
	process = spawn([PYTHON, "-c", "x = [str(n) for n in range(300000)]\nprint('ready', flush=True)\ninput()", "a b"],
	                dict(plain, PYTHONMALLOC="pymalloc"), stdin=subprocess.PIPE)
	assert process.stdout.readline() == "ready\n"

	said = looked(process.pid)

	assert re.fullmatch(r"3\.\d+", said["python"]["version"]) and said["python"]["pythonmalloc"] == "pymalloc"
	assert said["python"]["live_bytes"] is None or 10 * MB < said["python"]["live_bytes"] <= said["python"]["pools_bytes"]
	assert said["start"]["command"].endswith(" 'a b'") and said["start"]["obstacle"] is None


FORKED = "import os\nheld = [str(number) for number in range(1000000)]\n" \
         "if os.fork():\n    os.wait()\nelse:\n    print(os.getpid(), flush=True)\n    input()\n"


def test_a_look_copies_no_page_that_forked_processes_share(looked, spawn, plain):
	"""From Linux 5.19 on process_vm_readv gave each its own copy of a page in four: 100 MB became 122."""
	parent = spawn([PYTHON, "-c", FORKED], plain, stdin=subprocess.PIPE)
	child = int(parent.stdout.readline())

	def own_kb():
		rollup = pathlib.Path(f"/proc/{child}/smaps_rollup").read_text()
		return sum(map(int, re.findall(r"^Private_(?:Clean|Dirty):\s+(\d+)", rollup, re.MULTILINE)))
	before = own_kb()
	said = looked(child)
	after = own_kb()
	parent.communicate("\n")

	assert said["allocator"] and said["rss_bytes"] > 50 * MB
	assert after - before < 2048


def test_what_malloc_trim_does_not_reach_is_said_beside_pythons_pools(ctl, spawn, plain):
	"""The first line spoke of 111 MB free in the pools, the last of 0 to 4.6 MB that a trim brings."""
	process = spawn([PYTHON, "-c", "import time; print('ready', flush=True); time.sleep(60)"], plain)
	assert process.stdout.readline() == "ready\n"

	text = ctl("look", process.pid).stdout

	if "in the pools of its own allocator" not in text:
		pytest.skip("the pools of this Python cannot be read")
	assert "It does not reach Python's pools" in text.split("malloc_trim WOULD BRING")[1]


def test_another_allocator_is_named_and_malloc_trim_brings_nothing(looked, spawn, plain):
	library = next((path for path in pathlib.Path("/usr/lib").glob("*-linux-gnu/libjemalloc.so.2")), None)
	if library is None:
		pytest.skip("libjemalloc.so.2 is not installed")
	process = spawn([PYTHON, "-c", "print('ready', flush=True)\ninput()"], dict(plain, LD_PRELOAD=str(library)), stdin=subprocess.PIPE)
	assert process.stdout.readline() == "ready\n"

	said = looked(process.pid)

	assert (said["allocator"]["name"], said["allocator"]["found_by"]) == ("jemalloc", "library")
	assert said["trim"]["most_bytes"] is None and "malloc_trim is glibc's" in said["trim"]["text"]


def test_a_static_program_cannot_be_started_under_the_shim(looked, ctl, spawn, plain, compile_c, tmp_path):
	source = tmp_path / "still.c"
	source.write_text('#include <unistd.h>\nint main(void) { (void)!write(1, "ready\\n", 6); return pause(); }\n')
	process = spawn([compile_c(source, "-static")], plain)
	assert process.stdout.readline() == "ready\n"

	said = looked(process.pid)

	assert said["candidate"]["verdict"] == "no" and said["candidate"]["text"] == said["start"]["obstacle"]
	assert said["allocator"]["found_by"] == "static" and "linked statically" in said["start"]["obstacle"]
	assert "Not as it is: it is linked statically" in ctl("look", process.pid).stdout


def test_a_program_of_musl_that_is_linked_dynamically_is_not_called_static(looked, spawn, plain, run, tmp_path):
	if not shutil.which("musl-gcc"):
		pytest.skip("musl-gcc is not installed")
	source, program = tmp_path / "still.c", tmp_path / "still"
	source.write_text('#include <unistd.h>\nint main(void) { (void)!write(1, "ready\\n", 6); return pause(); }\n')
	assert run(["musl-gcc", "-o", program, source]).returncode == 0
	process = spawn([program], plain)
	assert process.stdout.readline() == "ready\n"

	said = looked(process.pid)

	assert (said["allocator"]["name"], said["allocator"]["found_by"]) == ("musl", "libc") and "is musl" in said["start"]["obstacle"]


def test_the_embedded_jemalloc_of_a_shimmed_process_is_named(looked, fake):
	said = looked(fake(allocator="jemalloc", mode="jemalloc"))

	assert (said["allocator"]["name"], said["allocator"]["file"]) == ("jemalloc", "libmtshim.so")
	assert "`mtctl trim " in said["trim"]["text"]


def test_limits_of_the_process_are_shown(looked, ctl, spawn, plain):
	process = spawn(["/bin/sh", "-c", "ulimit -Sv 2000000; ulimit -Ss 1024; echo ready; read line"], plain, stdin=subprocess.PIPE)
	assert process.stdout.readline() == "ready\n"

	limits = looked(process.pid)["rlimits"]

	assert (limits["address_space_bytes"], limits["stack_bytes"]) == (2000000 * 1024, MB)
	assert "Max stack size 1.0 MB (ulimit)" in ctl("look", process.pid).stdout


def test_a_shimmed_process_is_seen_too_and_other_commands_are_named(ctl, fake):
	pid = fake()

	assert f"It carries the shim: mtctl diagnose {pid}" in ctl("look", pid).stdout


def test_a_shim_that_its_settings_turn_off_is_said_to_be_off(looked, ctl, mtctl, spawn, plain):
	process = spawn([mtctl, "run", "--enable=0", "--", PYTHON, "-c", "import time; print('ready', flush=True); time.sleep(30)"], plain)
	assert process.stdout.readline() == "ready\n"

	said = ctl("look", process.pid).stdout

	assert "carries the shim, which is off\n" in said, said
	assert "Not as it is: MT_ENABLE, MT_ONLY or MT_EXCLUDE keep it out of this program.\n" in said and "diagnose" not in said, said
	assert looked(process.pid)["candidate"]["text"] == "MT_ENABLE, MT_ONLY or MT_EXCLUDE keep it out of this program"


def test_errors_tell_no_process_from_a_foreign_one(ctl, mtctl, spawn, plain, public):
	gone = spawn(["/bin/true"], plain)
	gone.wait()
	assert ctl("look", gone.pid).returncode == NO_PROCESS
	assert ctl("look", "that-one").returncode == NO_PROCESS and ctl("look").returncode == USAGE
	if os.geteuid() != 0:
		pytest.skip("only root can be another user")
	done = subprocess.run([public(mtctl), "look", str(os.getpid())], user=65534, group=65534, extra_groups=[], env=plain,
	                      capture_output=True, text=True, timeout=30)
	hidden = re.search(r"^proc /proc proc \S*hidepid=(invisible|2)", pathlib.Path("/proc/mounts").read_text(), re.MULTILINE)
	whose = "another user, and /proc hides it" if hidden else "root, and only root may read its memory"
	assert done.returncode == (NO_PROCESS if hidden else NOT_PERMITTED), done.stderr
	assert re.search(rf"process {os.getpid()} (\(.*\) )?belongs to {whose}", done.stderr), done.stderr


def test_hostile_words_reach_no_terminal(ctl, spawn, plain):
	process = spawn([PYTHON, "-c", "print('ready', flush=True)\ninput()", "\x1b[31m; rm -rf '/'\n"], plain, stdin=subprocess.PIPE)
	assert process.stdout.readline() == "ready\n"

	text = ctl("look", process.pid).stdout

	assert not re.search(r"[^\x20-\x7e\n]", text), repr(text)
	assert "$'\\x1b[31m; rm -rf \\'/\\'\\n'" in text
