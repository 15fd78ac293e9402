"""What mtctl says in passing, and must be true."""
import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios
import time
import unicodedata

import pytest

import fake_shim
from allocators import library_of
from mtctl_helpers import MB, NOT_SHIMMED, NOTHING, PYTHON, ROOT, USAGE, ctl, fake, plain  # noqa: F401
from top_helpers import screen, top  # noqa: F401

HOLDER = """import time
kept = [{'a': str(n)} for n in range(200000)]
print('ready', flush=True)
while True:
	time.sleep(0.01)
"""


def test_trim_says_before_it_collects_what_that_takes(ctl, mtctl, spawn, plain):
	process = spawn([mtctl, "run", "--", PYTHON, "-c", HOLDER], plain)
	assert process.stdout.readline() == "ready\n"

	first, second, purge = (ctl("trim", *words, process.pid) for words in ([], ["--dry-run"], ["--purge"]))

	assert re.search(r"main thread stands while its gc collects: none has run yet, about \d\S* ms is expected; --purge leaves it out", first.stderr), first
	assert re.search(r"main thread would stand while its gc collects: the last collection took \d\S* m?s, about \d\S* m?s is expected", second.stderr), second
	assert purge.stderr == "" and "purge cleanup" in purge.stdout and " gc " not in purge.stdout


def test_trim_does_not_announce_a_collection_that_the_program_has_disabled(ctl, mtctl, spawn, plain):
	process = spawn([mtctl, "run", "--", PYTHON, "-c", f"import gc; gc.disable()\n{HOLDER}"], plain)
	assert process.stdout.readline() == "ready\n"

	unknown, known = ctl("trim", process.pid), ctl("trim", "--dry-run", process.pid)

	assert "or if the program has disabled it\n" in unknown.stderr, unknown
	assert "the program had disabled Python's gc" in known.stderr and "stand" not in known.stderr, known
	assert "what Python's gc frees if it is enabled" in known.stdout, known


def test_trim_says_that_the_collection_waits_where_the_main_thread_does(ctl, mtctl, spawn, plain):
	"""It said how long the main thread 'stands while its gc collects', and nothing collected."""
	process = spawn([mtctl, "run", "--", PYTHON, "-c", f"{HOLDER.replace('while True:', 'if True:').replace('0.01', '600')}"], plain)
	assert process.stdout.readline() == "ready\n"
	time.sleep(0.3)

	got = ctl("trim", process.pid)

	assert "gc waits" in got.stdout and "Python's main thread waits in a system call: its gc collects when that returns" in got.stderr, got
	assert "expected" not in got.stderr


def test_trim_expects_a_collection_by_what_was_live_before_the_last_one_though_that_ran_late(ctl, mtctl, spawn, plain, wait_for):
	process = spawn([mtctl, "run", "--", PYTHON, "-c", "import gc, time\ngc.set_threshold(10**9)\nclass Node: pass\n"
	                 "for _ in range(400000): node = Node(); node.own, node.text = node, 'x' * 200\n"
	                 "print('ready', flush=True); time.sleep(4)\nprint('again', flush=True)\nwhile True: time.sleep(0.01)"], plain)
	assert process.stdout.readline() == "ready\n"

	assert "gc waits" in ctl("trim", process.pid).stdout
	assert process.stdout.readline() == "again\n"
	wait_for(lambda: json.loads(ctl("stat", "--json", process.pid).stdout)["records"][-1]["reason"] == "late_gc")
	said = ctl("trim", "--dry-run", process.pid).stderr
	last, expected = (float(value) * (1000 if unit == "s" else 1) for value, unit in re.findall(r"(\d[\d.]*) (m?s)\b", said))

	assert expected < last / 4, said


def test_record_takes_options_behind_a_pid_and_names_no_shim_for_a_bare_process(ctl, mtctl, spawn, plain, tmp_path):
	sleeper = spawn(["/bin/sleep", "60"], plain)
	file = tmp_path / "f.jsonl"

	bare = ctl("record", "-o", file, sleeper.pid)
	recorder = spawn(["timeout", "-s", "TERM", "0.6", mtctl, "record", "-o", file, str(sleeper.pid), "--interval=50ms", "--no-shim"],
	                 plain, stderr=subprocess.PIPE)

	assert bare.returncode == NOT_SHIMMED and "--no-shim" in bare.stderr, bare
	assert "peak RSS" in recorder.communicate(timeout=30)[1]
	assert len(file.read_text().splitlines()) > 5


def test_a_suggestion_of_record_keeps_tree(ctl, tmp_path):
	done = ctl("record", "--tree", "--no-shim", "-o", tmp_path / "f.jsonl", "--", "sleep", "1")

	assert "record --tree -o shim.jsonl -- sleep 1" in done.stderr, done


def test_compare_refuses_a_tree_against_a_process_and_says_what_it_wrote(ctl, tmp_path):
	one, tree, picture = tmp_path / "one.jsonl", tmp_path / "tree.jsonl", tmp_path / "x.svg"
	ctl("record", "--no-shim", "-o", one, "--", "sleep", "2")
	ctl("record", "--no-shim", "--tree", "-o", tree, "--", "sleep", "2")

	refused, drawn = ctl("compare", one, tree), ctl("compare", one, one, "-o", picture)

	assert refused.returncode == USAGE and "one is of a whole tree" in refused.stderr, refused
	assert drawn.returncode == 0 and f"wrote {picture}" in drawn.stderr and picture.exists(), drawn


def test_record_help_has_the_settings_in_one_line(ctl):
	text = ctl("record", "--help").stdout

	assert "mtshim(7)" in text and "--idle-ms" not in text and len(text.splitlines()) < 45


def test_a_program_without_its_library_is_told_by_its_package(ctl, mtctl, tmp_path):
	alone = tmp_path / "mtctl"
	shutil.copy(mtctl, alone)
	said = subprocess.run([alone, "top"], capture_output=True, text=True, timeout=30)
	assert said.returncode == 127 and "the package mtshim has it" in said.stderr, said
	shutil.copy(mtctl.parent / "mtctl-serve", tmp_path / "mtctl-serve")
	hidden = tmp_path / "hidden"
	hidden.mkdir()
	(hidden / "libmicrohttpd.so.12").write_text("no library")
	said = subprocess.run([alone, "serve", "--help"], env=dict(os.environ, LD_LIBRARY_PATH=str(hidden)), capture_output=True, text=True,
	                      timeout=30)
	assert "libmicrohttpd12" in said.stderr, said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.parametrize("words, name", [("report -o", "r.html"), ("trace -o", "t.json"), ("plot -o", "p.svg")])
def test_a_full_disk_leaves_no_half_file(ctl, mtctl, plain, tmp_path, words, name):
	recording, disk = tmp_path / "f.jsonl", tmp_path / "disk"
	assert ctl("record", "--no-shim", "--interval=10ms", "-o", recording, "--", "sleep", "1.5").returncode == 0
	disk.mkdir()
	script = f"mount -t tmpfs -o size=4k none {disk} && {mtctl} {words} {disk}/{name} {recording}; echo $?; ls {disk}"

	done = subprocess.run(["unshare", "-m", "sh", "-c", script], env=plain, capture_output=True, text=True, timeout=60)

	assert done.stdout == "2\n" and "No space left" in done.stderr, done


def test_a_tree_by_name_is_that_of_the_root_which_shares_the_name(ctl, mtctl, spawn, plain, tmp_path):
	script = tmp_path / "forks_itself.py"
	script.write_text("import os, time\nif os.fork(): print('ready', flush=True)\ntime.sleep(60)\n")
	root = spawn([PYTHON, script], plain)
	assert root.stdout.readline() == "ready\n"

	assert ctl("ps", "--tree=forks_itself.py").stdout.count("forks_itself.py") == 2
	assert json.loads(ctl("diagnose", "--tree", "--no-trim", "--for=0.2", "--json", "forks_itself.py").stdout or "{}").get("pid", root.pid) == root.pid
	assert "is the name of 2 processes" in ctl("look", "forks_itself.py").stderr


DAEMON = """import os, time
kept = b"x" * (60 << 20)
if os.fork():
	os._exit(0)
print(os.getpid(), flush=True)
time.sleep(600)
"""


def test_memory_of_a_daemon_whose_parent_is_gone_is_not_said_to_pass_malloc_by(ctl, mtctl, spawn, plain):
	daemon = int(spawn([mtctl, "run", "--", PYTHON, "-c", DAEMON], plain).stdout.readline())

	try:
		judged = ctl("diagnose", "--for=0.5", "--no-trim", daemon)
	finally:
		os.kill(daemon, signal.SIGKILL)

	assert "RSS" in judged.stdout and not re.search("pass malloc by|nobody counts", judged.stdout), judged


FORKS = """import os, sys
kept = b"x" * (60 << 20)
child = os.fork()
if child:
	print(child, flush=True)
sys.stdin.read()
"""


def test_a_forked_child_that_only_holds_memory_is_not_called_small(ctl, mtctl, spawn, plain, top):
	parent = spawn([mtctl, "run", "--", PYTHON, "-c", FORKS], plain)
	child = parent.stdout.readline().strip()

	shown, trimmed, judged = ctl("stat", child), ctl("trim", child), ctl("diagnose", "--for=0.5", "--no-trim", child)
	checked = ctl("doctor", child).stdout

	assert shown.returncode == NOTHING and shown.stderr.endswith("has allocated little in it since its start or its fork, it can start no thread, or its malloc is its own\n"), shown
	assert trimmed.returncode == 0 and "asleep: malloc has allocated little" in trimmed.stdout, trimmed
	assert not re.search("pass malloc by|nobody counts", judged.stdout), judged
	assert "asleep: malloc has allocated little in it" in checked and "MT_MIN_MB" not in checked, checked
	screen = top(f"--filter={child}")
	screen.wait(rf"^ *{child} ")
	screen.keys("End", "Enter")
	assert "MT_MIN_MB" not in screen.wait(r"asleep: malloc has allocated little").string


def test_fit_gives_no_number_where_nothing_tells_what_is_free(ctl, tmp_path):
	done, said = ctl("fit", "--model-mb=500"), json.loads(ctl("fit", "--model-mb=500", "--json").stdout)

	if said["free_bytes"] is not None:
		pytest.skip("this machine has a GPU")
	assert said["clients_count"] is None and done.returncode == NOTHING, (said, done)
	assert done.stdout.startswith("How many clients fit is not known"), done


def test_the_load_is_not_said_to_be_in_thousandths(ctl, fake):
	text = ctl("stat", "--all", fake(values={"load_thousandths": 8360})).stdout

	assert re.search(r"load +8\.360", text) and "thousandths" not in text, text


def test_trim_says_why_live_bytes_exceed_rss(ctl, fake):
	text = ctl("trim", "--purge", fake(values={"rss_bytes": 50 * MB})).stdout

	assert "live exceeds RSS: pages of live blocks that were never written to" in text, text


def test_names_that_are_not_ascii_are_shown_and_found_and_turn_no_text(ctl, spawn, plain, tmp_path):
	script = tmp_path / "größe_モデル.py"
	script.write_text("print('ready', flush=True)\nimport time\ntime.sleep(60)\n")
	process = spawn([PYTHON, script, "\u202e\x1b\x9b"], plain)
	assert process.stdout.readline() == "ready\n"

	for words in (["look"], ["stat"]):
		said = ctl(*words, "größe_モデル.py")
		text = said.stdout + said.stderr
		assert f"process {process.pid} (python3)" in text and "モデル.py" in text, said
		assert not {"\x1b", "\u202e", "\x9b"} & set(text), said


@pytest.mark.parametrize("program, has_all", [("kept = [{'a': str(n)} for n in range(300000)]; time.sleep(0.8)", True),
                                              ("kept = bytearray(100 << 20); time.sleep(0.5); del kept; time.sleep(0.8)", False)])
def test_rss_at_the_end_is_that_of_the_work_and_not_of_the_tear_down(ctl, tmp_path, program, has_all):
	file = tmp_path / "f.jsonl"
	assert ctl("record", "--no-shim", "--interval=10ms", "-o", file, "--", PYTHON, "-c", f"import time; {program}").returncode == 0

	run = json.loads(ctl("compare", "--json", file).stdout)["runs"][0]

	assert (run["rss_end_bytes"] > 0.9 * run["rss_peak_bytes"]) == has_all, run


def test_sites_names_python_first_for_a_python_program_and_one_step_for_any(ctl, mtctl, spawn, plain):
	process = spawn([mtctl, "run", "--", PYTHON, "-c", HOLDER], plain)
	assert process.stdout.readline() == "ready\n"

	said = ctl("sites", process.pid).stderr

	assert -1 < said.find("--python shows the lines") < said.find("MT_PROF=on"), said
	profiled = spawn([mtctl, "run", "--prof=on", "--", PYTHON, "-c", HOLDER], plain)
	assert profiled.stdout.readline() == "ready\n"
	assert json.loads(ctl("sites", "--json", profiled.pid).stdout)["sites"]


def test_a_name_is_never_cut_within_a_character(mtctl, spawn, plain, tmp_path):
	process = spawn([mtctl, "run", "--min-mb=0", "--", PYTHON, "-c", HOLDER, "ü" * 200], plain)
	assert process.stdout.readline() == "ready\n"

	for words in (["ps"], ["ps", "--tree"], ["trim", "--dry-run", str(process.pid)], ["top", "--once", "--flat"], ["plot", str(process.pid)]):
		for columns in ("120", "121"):
			said = subprocess.run([mtctl, *words], env=dict(plain, COLUMNS=columns, LC_ALL="C.UTF-8"), capture_output=True, timeout=30)
			assert said.returncode == 0 and said.stdout.decode(), words  # strict: raises where it is no UTF-8


def test_a_process_that_has_just_called_exec_is_not_said_to_lack_the_shim(ctl, mtctl, spawn, plain, tmp_path):
	again = tmp_path / "again"
	again.write_text('#!/bin/sh\nexec "$0"\n')
	again.chmod(0o755)
	process = spawn([mtctl, "run", "--", again], plain)
	time.sleep(0.3)

	codes = [ctl("trim", process.pid).returncode for _ in range(20)]

	assert NOT_SHIMMED not in codes, codes


def lines_on_terminal(command, env, columns):
	ours, theirs = pty.openpty()
	fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
	subprocess.run([str(word) for word in command], env=env, stdout=theirs, stderr=subprocess.DEVNULL, check=False)
	os.close(theirs)
	text = b""
	try:
		while piece := os.read(ours, 65536):
			text += piece
	except OSError:
		pass  # the end of what a terminal hands on
	os.close(ours)
	return text.decode().replace("\r", "").splitlines()


def columns_of(line):
	return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in line)


def test_rows_with_wide_characters_fit_the_terminal(mtctl, spawn, plain, tmp_path):
	script = tmp_path / ("日本語プログラム🚀✅" * 4 + ".py")
	script.write_text("print('ready', flush=True)\nimport time\ntime.sleep(60)\n")
	process = spawn([mtctl, "run", "--min-mb=0", "--", PYTHON, script], plain)
	assert process.stdout.readline() == "ready\n"

	for columns in (60, 80, 120):
		lines = lines_on_terminal([mtctl, "ps"], dict(plain, NO_COLOR="1", LC_ALL="C.UTF-8"), columns)
		assert any("日本語" in line for line in lines) and max(map(columns_of, lines)) <= columns, lines


def test_a_command_that_has_a_line_of_its_own_has_the_whole_line(mtctl, spawn, plain):
	process = spawn([mtctl, "run", "--min-mb=0", "--", PYTHON, "-c", HOLDER], plain)
	assert process.stdout.readline() == "ready\n"

	lines = lines_on_terminal([mtctl, "ps"], dict(plain, NO_COLOR="1"), 60)

	assert max(len(line) for line in lines if "python" in line) == 60, lines


@pytest.mark.parametrize("words", [["stat"], ["trim"], ["doctor"], ["look"], ["diagnose", "--for=2"]])
def test_a_library_of_another_name_is_known_by_its_files(ctl, shim, spawn, plain, tmp_path, wait_for, words):
	library = shutil.copy(shim, tmp_path / "preload.so")
	process = spawn([PYTHON, "-c", HOLDER], dict(plain, LD_PRELOAD=str(library), MT_MIN_MB="0"))
	assert process.stdout.readline() == "ready\n"
	wait_for(lambda: f"{process.pid}  awake" in ctl("ps").stdout)

	done = ctl(*words, process.pid)

	assert "does not carry the shim" not in done.stdout + done.stderr and done.returncode != NOT_SHIMMED, done


def test_the_command_of_a_program_that_ends_at_once_is_recorded(ctl, tmp_path):
	file = tmp_path / "f.jsonl"

	for _ in range(8):
		assert ctl("record", "--no-shim", "-q", "-o", file, "--", "/bin/true", "an argument").returncode == 0
		lines = [json.loads(line) for line in file.read_text().splitlines()]
		assert {line["command"] for line in lines if "command" in line} == {"/bin/true an argument"}, lines


def test_a_row_in_a_pipe_is_one_line(ctl, fake):
	wide, narrow = (len(ctl("trim", "--dry-run", fake(), **settings).stdout.splitlines()) for settings in ({}, {"COLUMNS": "40"}))

	assert wide == narrow


def test_tables_fit_a_terminal_of_40_columns(mtctl, plain, fake):
	pid = fake()

	for words in (["ps"], ["trim", "--dry-run", pid], ["stat", pid]):
		lines = lines_on_terminal([mtctl, *words], dict(plain, NO_COLOR="1"), 40)
		table = [line for line in lines if re.match(r"(  )?(all|RSS|PID|\d+) ", line.strip())][:3]
		assert table and max(map(len, table)) <= 40, (words, lines)


def test_why_libcs_malloc_serves_is_said_and_no_advice_names_what_is_set(ctl, mtctl, spawn, plain):
	"""Doctor called it ok, and sites advised MT_ALLOCATOR=jemalloc, which was set."""
	grows = "kept = [bytes(4000) for _ in range(9000)]; print('ready', flush=True); input()"
	process = spawn([mtctl, "run", "--min-mb=0", "--prof=on", "--allocator=jemalloc", "--", PYTHON, "-c", grows],
	                dict(plain, GLIBC_TUNABLES="glibc.malloc.hugetlb=2"))
	assert process.stdout.readline() == "ready\n"

	checked, sites = ctl("doctor", process.pid).stdout, ctl("sites", process.pid).stderr

	assert re.search(r"^note +allocator: glibc, mode system, libc's malloc for good: libc's malloc does not use the brk heap", checked, re.M), checked
	assert "MT_ALLOCATOR" not in sites and "MT_PROF" not in sites, sites


def test_sites_says_how_a_process_under_a_low_limit_gets_a_profile_and_it_does(ctl, mtctl, spawn, plain):
	"""It named the limit alone, as if nothing could be done."""
	grows = "kept = [bytes(4000) for _ in range(9000)]; print('ready', flush=True); input()"
	command = ["/bin/sh", "-c", 'ulimit -v 500000; exec "$@"', "-", mtctl, "run", "--", PYTHON, "-c", grows]
	first = spawn(command, plain)
	assert first.stdout.readline() == "ready\n"

	advised = ctl("sites", first.pid).stderr

	assert "start it with MT_PROF=on and MT_ALLOCATOR=jemalloc" in advised, advised
	second = spawn(command, dict(plain, MT_PROF="on", MT_ALLOCATOR="jemalloc", MT_MIN_MB="0"))
	assert second.stdout.readline() == "ready\n"
	assert ctl("sites", second.pid).returncode == 0


def test_a_request_to_a_stopped_process_says_that_it_is_stopped(ctl, mtctl, spawn, plain):
	process = spawn([mtctl, "run", "--min-mb=0", "--", PYTHON, "-c", HOLDER], plain)
	assert process.stdout.readline() == "ready\n"
	os.kill(process.pid, signal.SIGSTOP)
	os.waitpid(process.pid, os.WUNTRACED)

	begin = time.monotonic()
	said, snapshot = ctl("set", process.pid, "tick-ms=200").stderr, ctl("snapshot", process.pid).stderr
	took = time.monotonic() - begin
	looks = [ctl(*words, process.pid).stdout for words in (["stat"], ["stat", "--cached"], ["doctor"])]
	diagnosed = ctl("diagnose", "--for", "2s", process.pid).stdout

	os.kill(process.pid, signal.SIGCONT)
	assert "no answer in time: it is stopped (by a signal or a debugger)" in said, said
	assert "no answer in time: it is stopped (by a signal or a debugger)" in snapshot, snapshot
	assert took < 5, took
	assert all("it is stopped (by a signal or a debugger): its figures are" in look for look in looks), looks
	assert not any("does not reply" in text or "it hangs" in text for text in (*looks, diagnosed)) and "it is stopped" in diagnosed, diagnosed


@pytest.mark.parametrize("setting", [{"ENABLE": 0}, {"ONLY": "node"}, {"EXCLUDE": "a, py?hon*"}])
def test_a_program_that_the_settings_leave_out_is_not_said_to_allocate_little(spawn, env, control, setting):
	"""Its memory was said to pass malloc by; a setting is why there are no figures."""
	settings = env(**setting)
	process = spawn([PYTHON, "-c", "import time; held = b'x' * (60 << 20); print('ready', flush=True); time.sleep(30)"], settings)
	assert process.stdout.readline() == "ready\n"

	said = control(settings, "stat", process.pid).stderr + control(settings, "diagnose", process.pid, "--for", "3s", "--no-trim").stdout

	assert said.count("MT_ENABLE, MT_ONLY or MT_EXCLUDE keep it out of this program") == 2 and not re.search("pass malloc by|nobody counts", said)


def test_what_an_allocator_does_not_count_is_unknown_in_every_command_and_no_zero(ctl, fake):
	heap = {name: 0 for name in fake_shim.FIELDS if name.startswith("heap_")}
	pid = fake(values=heap, live_mb=0, samples=[{"live_bytes": 0, "dirty_bytes": 0}])
	unknown = ("heap_live_bytes", "heap_idle_bytes", "heap_dirty_bytes")

	trimmed = ctl("trim", pid)
	seen, ps, tree = (json.loads(ctl(*words, "--json").stdout) for words in (["stat", pid], ["ps"], ["ps", "--tree"]))
	cells, forest = (dict(zip(*(re.split("  +", line.strip()) for line in ctl(*words).stdout.splitlines()[:2]))) for words in (["ps"], ["ps", "--tree"]))

	assert "heap live" not in trimmed.stdout and seen["records"][-1]["live_after_bytes"] is None, trimmed
	assert {seen[name] for name in heap} == {None} == {seen["samples"][0][name] for name in ("live_bytes", "dirty_bytes")}
	for of in (seen, seen["samples"][0], ps["processes"][0], ps["total"]):
		parts = of["parts"]
		assert parts["live_bytes"] is None is parts["reusable_bytes"] and parts["files_bytes"] + parts["other_bytes"] == of["rss_bytes"]
	for sums in (ps["processes"][0], ps["processes"][0]["tree"], ps["total"], *tree["processes"], tree["total"]):
		assert {sums[name] for name in unknown if name in sums} == {None}, sums
	assert (cells["LIVE"], cells["REUSABLE"]) == ("-", "-") and "MB" in cells["FILES"], cells
	assert "PSS" in forest and "LIVE" not in forest, forest
	assert "mtshim_heap" not in re.sub("(?m)^#.*", "", ctl("export").stdout)
	assert re.search(r"live +- .*reusable +- ", ctl("top", "--once", COLUMNS="300").stdout)


@pytest.mark.parametrize("until, setting, said", [(46, {"ENABLE": 0}, "MT_ENABLE, MT_ONLY or MT_EXCLUDE keep it out of"),
                                                  (46, {"EXCLUDE": "python3"}, "settings keep it out, or"),
                                                  (48, {"EXCLUDE": "python3"}, "settings keep it out, or")])
def test_a_program_that_has_changed_its_title_is_not_told_a_wrong_reason_for_its_sleep(spawn, env, control, until, setting, said):
	"""As setproctitle does it: over its arguments (to 46 of /proc/PID/stat, less two), or over its environment as well (48)."""
	settings = env(MIN_MB=0, **setting)
	process = spawn([PYTHON, "-c", "import time\nfields = open('/proc/self/stat').read().rpartition(')')[2].split()\n"
	                 f"begin, end = int(fields[45]), int(fields[{until}])\nmemory = open('/proc/self/mem', 'r+b', 0)\nmemory.seek(begin)\n"
	                 "memory.write(b'worker: 1 of 8'.ljust(end - begin, b'\\0'))\nprint('ready', flush=True); time.sleep(30)"], settings)
	assert process.stdout.readline() == "ready\n"

	told = control(settings, "stat", process.pid).stderr

	assert said in told, told


def test_last_says_in_one_line_how_many_files_are_of_another_version(ctl, tmp_path):
	magic = int(re.search(r"MT_LAST_MAGIC +(0x\w+)ull", (ROOT / "shim/core/dump_layout.h").read_text())[1], 16)
	for number in range(3):
		(tmp_path / f"{number}.last").write_bytes(struct.pack("=QI", magic, 77).ljust(1 << 16, b"\0"))
	(tmp_path / "broken.last").write_text("no such file")

	said = ctl("last", "--dir", tmp_path).stderr

	assert sorted(line.partition(str(tmp_path))[2] for line in said.splitlines()) == [
		"/broken.last: refused: not written by a process at its limit", ": 3 files are of another version: use the mtctl of that version"], said


def test_a_worker_that_pids_max_has_refused_is_named_as_the_cause(ctl, mtctl, spawn, plain, shim):
	group = pathlib.Path("/sys/fs/cgroup/pids/mtshim-test")
	try:
		group.mkdir()
	except OSError:
		pytest.skip("no pids cgroup (v1) can be made")
	try:
		(group / "pids.max").write_text("1")
		process = spawn(["/bin/sh", "-c", f"echo $$ > {group}/cgroup.procs; LD_PRELOAD={shim} exec {PYTHON} -c 'import time; kept = [bytes(1000) "
		                 "for _ in range(100000)]; print(\"ready\", flush=True); time.sleep(30)'"], plain)
		assert process.stdout.readline() == "ready\n"
		said = ctl("diagnose", "--for", "3s", "--no-trim", process.pid).stdout
		others = [shown.stdout + shown.stderr for shown in (ctl(word, process.pid) for word in ("stat", "doctor", "trim", "advise"))]
		process.kill()
		process.wait()
	finally:
		group.rmdir()

	assert said.startswith("unknown: the worker thread of the library could not start: pids.max of the cgroup (1) has refused threads\n"), said
	assert "Raise pids.max" in said and "private" not in said, said
	assert all("pids.max of its cgroup has refused threads" in text for text in others), others


def test_all_commands_name_one_reason_why_a_process_sleeps_after_its_exec(ctl, mtctl, spawn, plain, wait_for):
	process = spawn([mtctl, "run", "--min-mb=0", "--", PYTHON, "-c", "import os, sys; kept = [str(n) for n in range(300000)]; print('ready', flush=True); "
	                 "sys.stdin.readline(); del os.environ['MT_MIN_MB']; os.execv('/bin/sleep', ['sleep', '60'])"], plain)
	assert process.stdout.readline() == "ready\n"
	assert ctl("stat", process.pid).returncode == 0
	process.stdin.write("go\n")
	process.stdin.flush()
	wait_for(lambda: "(sleep)" in ctl("doctor", process.pid).stdout, 4)

	said = {word: shown.stdout + shown.stderr for word in ("stat", "doctor", "trim", "advise") for shown in [ctl(word, process.pid)]}

	assert all("it holds less anonymous memory than MT_MIN_MB; started with MT_MIN_MB=0 it has figures\n" in text for text in said.values()), said


def test_what_an_allocator_does_not_count_is_not_said_to_be_zero(ctl, spawn, plain, shim):
	process = spawn([PYTHON, "-c", HOLDER], dict(plain, LD_PRELOAD=f"{shim}:{library_of('mimalloc')}", MT_ALLOCATOR="system", MT_MIN_MB="0"))
	assert process.stdout.readline() == "ready\n"

	trimmed, reset, document = ctl("trim", "--light", process.pid).stderr, ctl("reset-peak", process.pid).stdout, ctl("reset-peak", "--json", process.pid).stdout
	figures = json.loads(ctl("stat", "--json", process.pid).stdout)

	assert "its allocator does not count live bytes: no duration is expected" in trimmed and "0.0 ms" not in trimmed, trimmed
	assert reset.endswith("the peak of live bytes starts again at -\n"), reset
	assert json.loads(document)["processes"][0]["heap_live_peak_bytes"] is None
	assert figures["heap_live_bytes"] is None and figures["threads_count"] is None
