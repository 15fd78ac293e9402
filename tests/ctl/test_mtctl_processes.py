"""mtctl and the files of processes: stat, ps, trim, set, doctor against fake_shim.py, which gives the answers that the
real shim never gives: late, forged, of another version, hostile."""
import fcntl
import json
import os
import re
import signal
import subprocess
import time

import pytest

import fake_shim
from mtctl_helpers import DONE, FAKE, FREED, MB, NO_ANSWER, NO_PROCESS, NOT_SHIMMED, NOTHING, PYTHON, USAGE, files_of
from mtctl_helpers import ctl, fake, plain  # noqa: F401 (fixtures)


# ---- stat and ps against the fake ----

def test_stat_knows_every_field_by_its_name(fake, ctl):
	pid = fake()
	ctl("trim", pid)

	seen = json.loads(ctl("stat", pid, "--json").stdout)

	assert {name.removesuffix("_thousandths") for name in fake_shim.FIELDS} <= set(seen)
	assert (seen["pid"], seen["comm"], seen["allocator"], seen["mode"]) == (pid, "python3", "jemalloc", "jemalloc")
	assert (seen["rss_bytes"], seen["heap_live_bytes"], seen["signal_disposition"]) == (300 * MB, 200 * MB, 1)
	assert seen["settings"] == [{"name": "gc_rounds", "value": "0", "origin": "default"},
	                            {"name": "tick_ms", "value": "100", "origin": "environment"}]
	record = seen["records"][-1]
	assert (record["reason"], record["level"], record["gc_state"], record["result"]) == ("request", "heavy", "done", 0)
	assert seen["samples"][0]["anon_bytes"] == 250 * MB
	text = ctl("stat", pid, "--all", "--samples").stdout
	assert all(f"\n{name.removesuffix('_thousandths')} " in text for name in fake_shim.FIELDS if not name.startswith("gpu_"))
	assert re.search(r"\nrss_bytes +300.0 MB", text) and "tick_ms=100 (environment)" in text and "gc_rounds=" not in text


def test_stat_asks_for_fresh_figures_unless_told_not_to(fake, ctl):
	pid = fake()

	assert json.loads(ctl("stat", pid, "--json", "--cached").stdout)["requests_count"] == 0
	assert json.loads(ctl("stat", pid, "--json").stdout)["requests_count"] == 1


def test_stat_shows_a_process_that_does_not_answer(fake, ctl):
	pid = fake(deaf=True)

	begin = time.monotonic()
	assert json.loads(ctl("stat", pid, "--json").stdout)["rss_bytes"] == 300 * MB
	assert time.monotonic() - begin < 5


def test_stat_watches_until_the_process_ends(fake, mtctl, plain, spawn):
	pid = fake()
	watcher = spawn([mtctl, "stat", str(pid), "--json", "--watch=0.05"], plain)

	for _ in range(3):
		assert json.loads(watcher.stdout.readline())["pid"] == pid
	os.kill(pid, signal.SIGKILL)
	os.waitpid(pid, 0)
	assert watcher.wait(timeout=10) in (DONE, NO_PROCESS)


def test_hostile_text_reaches_no_terminal(fake, ctl):
	pid = fake(text="\x1b[31m\x07\n\xff\x9b")

	for words in (["stat"], ["stat", "--json"], ["doctor"]):
		got = ctl(words[0], pid, *words[1:])
		assert got.returncode in (0, 1)
		assert not re.search("[^\x20-\x7e\n]", got.stdout + got.stderr)
	assert json.loads(ctl("stat", pid, "--json").stdout)["allocator"] == "?[31m????"


@pytest.mark.parametrize("options, words", [({"version": 77}, ["another version (77)", "restart the process"]),
                                            ({"version": 2}, ["another version (2)", "restart the process"]),
                                            ({"broken": True}, ["checksum"]),
                                            ({"other_pid": 1}, ["another process"])])
def test_a_stats_file_that_is_not_right_is_refused(fake, ctl, options, words):
	pid = fake(**options)

	for command in ("stat", "trim"):
		got = ctl(command, pid)
		assert got.returncode == USAGE, got.stdout
		assert all(word in got.stderr for word in words) and got.stderr.count("\n") == 1
	assert json.loads(ctl("ps", "--json").stdout)["processes"]


def test_a_shim_of_another_version_is_refused_also_where_it_names_its_control_file_differently(fake, ctl, mt_dir):
	pid = fake(version=77)
	files_of(pid, mt_dir, "control").rename(mt_dir / f"{pid}-1-1.other")

	for words in (["trim"], ["round"], ["set", "gc_rounds=7"]):
		got = ctl(words[0], pid, *words[1:])
		assert (got.returncode, got.stderr.count("another version (77)")) == (USAGE, 1), (words, got)


def test_files_that_are_no_files_of_the_process_are_refused(fake, ctl, mt_dir, tmp_path):
	pid = fake()
	file = files_of(pid, mt_dir, "stats")
	kept = file.read_bytes()

	file.unlink()
	(tmp_path / "copy").write_bytes(kept)
	file.symlink_to(tmp_path / "copy")
	assert "symbolic link" in ctl("stat", pid, "--cached").stderr
	file.unlink()
	os.mkfifo(file, 0o600)
	assert ctl("stat", pid, "--cached").returncode == USAGE
	file.unlink()
	file.write_bytes(kept)
	file.chmod(0o666)
	assert "others may write" in ctl("stat", pid, "--cached").stderr
	file.chmod(0o600)
	assert ctl("stat", pid, "--cached").returncode == 0
	mt_dir.chmod(0o777)
	assert ctl("stat", pid, "--cached").returncode == USAGE
	mt_dir.chmod(0o700)
	if os.geteuid() == 0:
		os.chown(file, 12345, -1)
		assert "of user 12345" in ctl("stat", pid, "--cached").stderr


def test_a_directory_that_is_a_link_is_refused(fake, ctl, plain, mt_dir, tmp_path):
	(tmp_path / "link").symlink_to(mt_dir)
	pid = fake(environment=dict(plain, MT_DIR=str(tmp_path / "link")))

	got = ctl("stat", pid, "--cached", MT_DIR=str(tmp_path / "link"))

	assert got.returncode == USAGE and "not a directory" in got.stderr


def test_the_directory_is_that_of_the_process_not_ours(fake, ctl, tmp_path):
	assert ctl("stat", fake(), MT_DIR=str(tmp_path / "elsewhere")).returncode == 0


def test_ps_shows_a_tree_with_sums(fake, ctl, plain, mt_dir, tmp_path):
	program = f"import subprocess, sys; subprocess.run([sys.executable, {str(FAKE)!r}, *sys.argv[1:]])"
	outer = fake()
	# An unshimmed process stands between the two.
	middle = subprocess.Popen([PYTHON, "-c", program, tmp_path / "libmtshim.so", mt_dir, '{"awake": false}'], env=plain,
	                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
	try:
		assert middle.stdout.readline() == "ready\n"
		listed = json.loads(ctl("ps", "--json").stdout)
		mine = {one["pid"]: one for one in listed["processes"]}
		asleep = next(one for one in mine.values() if one["ppid"] == middle.pid)
		assert mine[outer]["state"] == "awake" and mine[outer]["heap_idle_bytes"] == 50 * MB
		assert asleep["state"] == "asleep" and asleep["heap_live_bytes"] is None and asleep["rss_bytes"] > MB
		assert listed["total"]["rss_bytes"] == sum(one["rss_bytes"] for one in mine.values())
		assert mine[outer]["records_count"] == 0 and asleep["records_count"] is None
		assert 0 < listed["memory"]["used_bytes"] < listed["memory"]["limit_bytes"]
		assert middle.pid not in mine
		assert all(sum(one["parts"].values()) == one["rss_bytes"] for one in mine.values() if one["parts"])
		assert all(sum(part or 0 for part in one["parts"].values()) == one["rss_bytes"]
		           for one in (listed["total"], *(one["tree"] for one in mine.values())))
		lines = ctl("ps").stdout.splitlines()
		# A process of another test may use a device or have a rank, and have a column for it.
		assert [word for word in lines[0].split() if word not in ("GPU", "RANK")] == ["PID", "STATE", "RSS", "LIVE", "REUSABLE", "FILES", "OTHER", "TREE", "COMMAND"]
		assert any(line.split()[0] == str(outer) and "awake" in line.split()[1:3] for line in lines)
		assert lines[-1].split()[0] == "all"
		trimmed = ctl("trim", "--tree", middle.pid)
		first, total = trimmed.stdout.splitlines()
		assert (trimmed.returncode, first) == (DONE, f"process {asleep['pid']} ({asleep['comm']}): asleep: it holds less anonymous memory than MT_MIN_MB; started with MT_MIN_MB=0 it has figures")
		assert re.match(r"the whole tree: PSS \d+\.\d MB -> .* 2 processes$", total)
	finally:
		middle.stdin.close()
		middle.wait(timeout=10)


def test_ps_indents_children_and_sums_them_up(spawn, ctl, plain, mt_dir, tmp_path):
	library = tmp_path / "libmtshim.so"
	library.write_bytes(bytes(8192))
	parent = spawn([PYTHON, "-c", "import mmap, subprocess, sys\n"
	                "file = open(sys.argv[2], 'rb')\n"
	                "kept = mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)\n"
	                "subprocess.run([sys.executable, *sys.argv[1:]])", FAKE, library, mt_dir], plain)
	assert parent.stdout.readline() == "ready\n"

	mine = {one["pid"]: one for one in json.loads(ctl("ps", "--json").stdout)["processes"]}
	child = next(one for one in mine.values() if one["ppid"] == parent.pid)

	assert child["parent"] == parent.pid and mine[parent.pid]["parent"] is None
	assert mine[parent.pid]["tree"]["rss_bytes"] == mine[parent.pid]["rss_bytes"] + child["rss_bytes"]
	assert mine[parent.pid]["tree"]["heap_live_bytes"] == 200 * MB
	assert re.search(rf"^\s*{child['pid']} .*  \\_ ", ctl("ps").stdout, re.MULTILINE)


def test_ps_sweeps_the_files_of_the_dead_of_its_own_namespace(fake, ctl, mt_dir):
	pid = fake()
	living = files_of(pid, mt_dir, "stats").name
	_, start, pidns = living.removesuffix(".stats").split("-")
	dead = [f"{pid}-{int(start) - 1}-{pidns}.stats", f"{pid}-{int(start) - 1}-{pidns}.control", f"4194305-1-{pidns}.control"]
	foreign = [f"{pid}-{int(start) - 1}-{int(pidns) + 1}.stats", "notes.stats", f"{pid}-1-{pidns}.stats.keep",
	           f" {pid}-1-{pidns}.stats"]
	for name in dead + foreign:
		(mt_dir / name).write_bytes(b"x")

	ctl("ps")

	left = {file.name for file in mt_dir.iterdir()}
	assert not left & set(dead)
	assert left == set(foreign) | {living, living.replace(".stats", ".control")}


# ---- requests against the fake ----

def test_trim_says_in_bytes_what_it_did(fake, ctl):
	got = ctl("trim", fake(freed_mb=100))

	assert got.returncode == FREED
	assert re.search(r"RSS +300\.0 MB +200\.0 MB +-100\.0 MB", got.stdout)
	assert "gc collected 1,234 objects" in got.stdout and "heavy cleanup, freed" in got.stdout


def test_a_trim_that_brought_next_to_nothing_does_not_say_that_it_freed(fake, ctl):
	got = ctl("trim", fake(result=1))

	assert "heavy cleanup, freed less than 1 MB, " in got.stdout
	assert got.returncode == FREED, "by the record, as before"
	assert json.loads(ctl("trim", fake(result=1), "--json").stdout)["processes"][0]["record"]["result"] == 1


def test_one_round_is_no_rounds(fake, ctl):
	pid = fake()

	assert ctl("round", pid).stdout.endswith(": 1 round has ended\n")
	assert ctl("round", pid).stdout.endswith(": 2 rounds have ended\n")


def test_trim_believes_the_record_not_the_figures(fake, ctl):
	assert [ctl("trim", pid, *check).returncode for pid in (fake(freed_mb=100, result=0), fake(result=2)) for check in ([], ["--check"])] == \
		[DONE, NOTHING] * 2
	assert ctl("trim", fake(result=1), "--check").returncode == FREED


def test_trim_follows_a_merged_record(fake, ctl):
	got = ctl("trim", fake(freed_mb=7, merged=True))

	assert got.returncode == FREED and "-7.0 MB" in got.stdout


def test_trim_light_asks_for_light(fake, ctl):
	assert "light cleanup" in ctl("trim", fake(), "--light").stdout


def test_trim_of_a_process_that_sleeps(fake, ctl):
	pid = fake(awake=False)
	got = ctl("trim", pid)

	assert got.returncode == DONE and "asleep: it holds less anonymous memory than MT_MIN_MB" in got.stdout and got.stderr == ""
	assert ctl("trim", pid, "--check").returncode == NOTHING
	asked = ctl("stat", pid)
	assert asked.returncode == NOTHING and "asleep: it has no files: it holds less anonymous memory than MT_MIN_MB" in asked.stderr


def test_ps_asks_where_rss_has_moved_and_marks_what_gets_no_reply(fake, ctl):
	"""It showed LIVE of half a minute ago beside an RSS of now: more was live than resident."""
	values = {"rss_bytes": 300 * MB, "heap_live_bytes": 200 * MB, "heap_idle_bytes": 20 * MB}
	asked, deaf = fake(values=values), fake(values=values, deaf=True)

	lines = ctl("ps").stdout.splitlines()

	(one,), (other,) = ([line for line in lines if line.split()[0] == str(pid)] for pid in (asked, deaf))
	assert "MB*" not in one and other.count("MB* ") >= 2
	assert lines[-1] == "* of a time when RSS was another one; no reply within 250 ms"
	assert json.loads(ctl("stat", asked, "--json", "--cached").stdout)["requests_count"] == 1
	assert "*" not in ctl("ps", "--pids").stdout


def test_what_a_stopped_process_has_grown_by_is_not_said_to_be_live(fake, ctl):
	"""It was added to LIVE, which then had a figure that no allocator has counted."""
	pid = fake(values={"rss_bytes": MB, "rss_anon_bytes": MB, "heap_live_bytes": MB // 2}, deaf=True)

	said = next(one for one in json.loads(ctl("ps", "--json").stdout)["processes"] if one["pid"] == pid)

	assert said["rss_bytes"] > 4 * MB and said["parts"]["live_bytes"] == said["heap_live_bytes"] == MB // 2, said
	assert said["parts"]["other_bytes"] == said["rss_bytes"] - MB, said


def test_no_answer_in_time(fake, ctl):
	begin = time.monotonic()
	got = ctl("trim", fake(deaf=True), "--timeout=0.3")

	assert got.returncode == NO_ANSWER and "no answer in time" in got.stderr
	assert 0.25 < time.monotonic() - begin < 5
	assert ctl("round", fake(deaf=True), "--timeout=0.1").returncode == NO_ANSWER


@pytest.mark.parametrize("deaf_at", [0, 1])
def test_trim_and_set_of_two_processes_have_one_exit_code_where_one_of_them_fails(fake, ctl, deaf_at):
	"""trim exited with 0, so that a script did not see that one of its processes had not replied."""
	pids = [fake()]
	pids.insert(deaf_at, fake(deaf=True))

	got = [ctl(*words).returncode for words in (["trim", *pids, "--timeout=0.3"], ["set", *pids, "gc_rounds=7"])]

	assert got == [NO_ANSWER, NO_ANSWER]


def test_a_process_that_ends_while_it_is_asked(fake, mtctl, plain, spawn):
	pid = fake(deaf=True)
	asker = spawn([mtctl, "trim", str(pid)], plain)
	time.sleep(0.3)

	os.kill(pid, signal.SIGKILL)

	assert asker.wait(timeout=10) == NO_PROCESS
	assert "has ended" in asker.stderr.read()


@pytest.mark.alone
def test_trim_all_waits_for_all_at_once(fake, ctl):
	pids = [fake(freed_mb=number, slow_s=1) for number in range(3)]

	begin = time.monotonic()
	got = ctl("trim", "--all", "--timeout=10")

	assert got.returncode == FREED
	assert time.monotonic() - begin < 2.9
	assert all(f"process {pid} " in got.stdout for pid in pids)


@pytest.mark.parametrize("words", [["--al"], ["--all-user"], ["--tre", "PID"], ["--tre=PID"], ["--time=1", "PID"], ["--time", "1", "PID"],
                                   ["--lig", "PID"]], ids=lambda words: words[0])
def test_an_abbreviated_option_of_a_command_that_acts_is_refused(fake, ctl, words):
	"""What it stands for may change with the next option: --al was --all."""
	pid = fake(freed_mb=1)

	got = ctl("trim", *(word.replace("PID", str(pid)) for word in words))

	assert (got.returncode, got.stdout) == (USAGE, "") and got.stderr.count("\n") == 1 and words[0][:5] in got.stderr
	assert json.loads(ctl("stat", pid, "--json", "--cached").stdout)["requests_count"] == 0
	assert ctl("set", pid, "--hel").returncode == USAGE and ctl("round", pid, "--timeou=1").returncode == USAGE


def test_an_option_in_full_takes_its_value_in_either_way(fake, ctl):
	pid = fake(freed_mb=1)

	assert [ctl("trim", *words, pid).returncode for words in (["--timeout=5"], ["--timeout", "5"], ["--light", "-t", "5"])] == [FREED] * 3
	assert ctl("trim", pid, "--timeout", "5", "--json").returncode == FREED and ctl("trim", f"--tree={pid}").returncode == FREED


@pytest.mark.parametrize("words", [["--all", "--tree", "1"], ["--all", "1"], [], ["--tree", "1", "2"], ["--tree"], ["1", "--check", "--dry-run"], ["--all", "--all-users"], ["1", "--purge", "--heavy"],
                                   ["--all-users", "1"], ["--all-users", "--tree", "1"]])
def test_trim_refuses_what_contradicts_itself(ctl, words):
	assert ctl("trim", *words).returncode == USAGE


def test_the_usage_of_trim_names_everything_that_it_takes_in_the_place_of_a_pid(ctl):
	for usage in (ctl("trim").stderr, ctl("trim", "--help").stdout, ctl("help").stdout):
		assert "PID... | --all | --all-users | --tree PID" in usage


def test_the_control_file_is_added_to_and_the_number_goes_up(fake, ctl, mt_dir):
	pid = fake()
	control = files_of(pid, mt_dir, "control")
	for expected in (1, 2, 3):
		ctl("round", pid)
		_, _, word, seq, kind, *_ = fake_shim.CONTROL.unpack(control.read_bytes()[:fake_shim.CONTROL.size])
		assert (word, seq, kind) == (expected, expected, fake_shim.ROUND)


def test_requests_stand_in_line(fake, ctl, mtctl, plain, spawn):
	"""Two settings at the same moment: without the lock one would overwrite the other before it is read."""
	pid = fake(slow_s=0.2)
	askers = [spawn([mtctl, "set", str(pid), assignment], plain) for assignment in ("gc_rounds=4", "tick_ms=50")]

	assert [asker.wait(timeout=15) for asker in askers] == [0, 0]

	settings = {one["name"]: one["value"] for one in json.loads(ctl("stat", pid, "--json").stdout)["settings"]}
	assert settings == {"gc_rounds": "4", "tick_ms": "50"}


def test_a_lock_that_is_held_is_waited_for_in_vain(fake, ctl, mt_dir):
	pid = fake()
	with files_of(pid, mt_dir, "control").open("rb") as control:
		fcntl.flock(control, fcntl.LOCK_EX)
		assert ctl("trim", pid, "--timeout=0.2").returncode == NO_ANSWER


@pytest.mark.parametrize("spoil", [lambda control: os.truncate(control, 0), lambda control: control.write_bytes(b"\xff" * 4096),
                                   lambda control: control.write_bytes(control.read_bytes()[:100])])
def test_a_spoiled_control_file_is_refused_without_harm(fake, ctl, mt_dir, spoil):
	pid = fake()
	spoil(files_of(pid, mt_dir, "control"))

	got = ctl("trim", pid, "--timeout=1")

	assert got.returncode == USAGE and got.stderr.startswith("mtctl: ") and "refused" in got.stderr


def test_set_prints_old_and_new(fake, ctl):
	pid = fake()
	for name in ("gc_rounds", "gc-rounds", "MT_GC_ROUNDS", "Gc_Rounds"):
		assert ctl("set", pid, name + "=5").returncode == 0

	assert ctl("set", pid, "gc_rounds=7").stdout == "gc_rounds: 5 -> 7\n"


@pytest.mark.parametrize("assignment, words", [("gc_rounds=-3", "0..1000000"), ("gc_rounds=", "0..1000000"),
                                               ("gc_rounds", "NAME=VALUE"), ("gc_round=1", "did you mean 'gc_rounds'"),
                                               ("allocator=system", "before the program starts"), ("=1", "no setting")])
def test_set_refuses_without_asking(fake, ctl, assignment, words):
	pid = fake()

	got = ctl("set", pid, assignment)

	assert (got.returncode, got.stdout) == (USAGE, "") and words in got.stderr
	assert json.loads(ctl("stat", pid, "--json", "--cached").stdout)["requests_count"] == 0


def test_set_tells_what_the_process_said(fake, ctl):
	got = ctl("set", fake(request_error=2), "gc_rounds=5")

	assert got.returncode == USAGE and "outside the allowed range" in got.stderr


# ---- doctor ----

def test_doctor_looks_at_the_environment(ctl, tmp_path):
	(tmp_path / "libjemalloc.so.2").touch()
	got = ctl("doctor", RAY_JEMALLOC_LIB_PATH="/x.so", MALLOC_CONF="narenas:2,dirty_decay_ms:5000",
	          MT_GC_ROUND="3", LD_PRELOAD=str(tmp_path / "libjemalloc.so.2"))

	assert got.returncode == 1
	assert re.search(r"^warn  RAY_JEMALLOC_LIB_PATH is set: Ray replaces LD_PRELOAD", got.stdout, re.MULTILINE)
	assert "MALLOC_CONF: dirty_decay_ms is ignored" in got.stdout and "narenas is" not in got.stdout
	assert "MT_GC_ROUND is no setting; did you mean MT_GC_ROUNDS?" in got.stdout
	assert "(jemalloc) stands in line" in got.stdout
	for line in got.stdout.splitlines():
		assert re.match(r"(ok  |note|warn)  \S|      \S|a program|the machine", line), line


def test_doctor_warns_of_a_directory_that_others_may_enter(ctl, mt_dir):
	mt_dir.chmod(0o755)
	assert f"warn  {mt_dir}: mode 755" in ctl("doctor").stdout
	mt_dir.chmod(0o700)
	assert f"ok    {mt_dir}: yours, mode 700" in ctl("doctor").stdout


def test_doctor_spares_its_reader_the_settings_that_nobody_has_chosen(fake, ctl):
	got = ctl("doctor", fake(settings={"tick_ms": ["100", "default"]}))

	assert re.search(r"^ +settings +all at their defaults$", got.stdout, re.MULTILINE) and "(default)" not in got.stdout


def test_doctor_looks_at_a_process(fake, ctl, plain):
	got = ctl("doctor", fake(environment=dict(plain, MT_TICKMS="5")))

	assert "ok    allocator: jemalloc, mode jemalloc" in got.stdout
	assert "ok    signal: the handler of the shim is installed" in got.stdout
	assert re.search(r"settings +tick_ms += 100 +\(environment\)\n", got.stdout) and "gc_rounds" not in got.stdout
	assert "warn  MT_TICKMS is no setting; did you mean MT_TICK_MS?" in got.stdout and got.returncode == 1


def test_doctor_names_what_is_out_of_reach(spawn, ctl, plain, mt_dir, tmp_path):
	names = ["libmtshim.so", "libarrow.so.1200", "libjemalloc.so.2", "_duckdb.cpython-311-x86_64-linux-gnu.so"]
	for name in names:
		(tmp_path / name).write_bytes(bytes(8192))
	program = ("import mmap, os, sys\n"
	           "maps = [mmap.mmap(os.open(path, os.O_RDONLY), 4096, flags=mmap.MAP_PRIVATE,\n"
	           "        prot=mmap.PROT_READ | mmap.PROT_EXEC) for path in sys.argv[1:]]\n"
	           "shared = os.memfd_create('x')\n"
	           "os.ftruncate(shared, 8 << 20); maps.append(mmap.mmap(shared, 8 << 20))\n"
	           "print('ready', flush=True); sys.stdin.read()")
	process = spawn([PYTHON, "-c", program, *(tmp_path / name for name in names)], plain)
	assert process.stdout.readline() == "ready\n"

	got = ctl("doctor", process.pid).stdout

	assert "note  asleep: it holds less anonymous memory than MT_MIN_MB" in got
	assert "out of reach: pyarrow allocates from its own jemalloc or mimalloc" in got
	assert "out of reach: DuckDB allocates from its own jemalloc" in got
	assert "-> SET allocator_background_threads=true; in DuckDB" in got
	assert f"jemalloc is loaded: {tmp_path}/libjemalloc.so.2" in got
	assert "1 shared memory mapping (/dev/shm, memfd, SysV, anonymous MAP_SHARED), 8.0 MB" in got


def test_doctor_warns_when_a_raw_system_call_has_replaced_the_handler(fake, ctl, mt_dir):
	pid = fake(deaf=True)
	file = files_of(pid, mt_dir, "stats")
	data = bytearray(file.read_bytes())
	size = fake_shim.HEAD.size + 8 * len(fake_shim.FIELDS)
	place = fake_shim.HEAD.size + 8 * fake_shim.FIELDS.index("signal_disposition")
	data[place:place + 8] = (3).to_bytes(8, "little")
	data[size:size + 8] = fake_shim.checksum(bytes(data[:size])).to_bytes(8, "little")
	file.write_bytes(data)

	assert "warn  signal: SIG_DFL came back by a raw system call" in ctl("doctor", pid).stdout
