"""The command line of `mtctl diagnose`: times, roles, exit codes, JSON, an early end. Verdicts on real programs are in
test_diagnose.py."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

import stats_raw
from mtctl_helpers import FAKE, MB, NO_PROCESS, NOT_SHIMMED, PYTHON, ROOT, USAGE, ctl, fake, files_of, plain  # noqa: F401

pytestmark = pytest.mark.slow

VERDICTS = {word: int(code) for code, word in
            re.findall(r'X\(\w+,\s*(\d+),\s*"([a-z-]+)"', (ROOT / "ctl" / "diagnose" / "diagnose.h").read_text())}
# The least look that says anything, and then some.
FOR = "--for=2"
FLAT = {"rss_bytes": 20 * MB, "heap_live_bytes": 5 * MB, "heap_resident_bytes": 6 * MB, "heap_idle_bytes": 0}
HOARD = {**FLAT, "heap_idle_bytes": 300 * MB, "heap_resident_bytes": 306 * MB}


def records_of(ctl, pid):
	return json.loads(ctl("stat", pid, "--json").stdout)["records"]


def test_a_flat_process_is_healthy_and_ends_with_0(ctl, fake):
	done = ctl("diagnose", fake(values=FLAT), FOR)

	assert done.returncode == 0, done.stdout + done.stderr
	assert re.match(r"healthy: RSS flat at \d+\.\d MB: nothing to do\n", done.stdout)
	assert "EVIDENCE" in done.stdout and "confidence in the verdict" in done.stdout


def test_nothing_but_the_verdict_is_printed_where_stderr_is_no_terminal(ctl, fake):
	assert ctl("diagnose", fake(values=FLAT), FOR).stderr == ""


def test_idle_heap_is_a_hoard_with_its_exit_code(ctl, fake):
	pid = fake(values=HOARD, held_mb=306)

	done = ctl("diagnose", pid, FOR, "--no-trim")

	assert done.returncode == VERDICTS["hoard"]
	assert done.stdout.startswith("hoard: the allocator keeps 300.0 MB that the program has freed\n")
	assert f"mtctl trim {pid}" in done.stdout


def test_idle_heap_that_is_not_resident_is_no_hoard(ctl, fake):
	pid = fake(values=HOARD)

	assert "hoard" not in ctl("stat", pid).stdout
	assert ctl("diagnose", pid, FOR, "--no-trim").returncode == 0


def test_a_slack_that_is_chosen_in_percent_is_that_of_the_memory_before_the_trim(ctl, fake):
	values = {**FLAT, "rss_bytes": 320 * MB, "rss_anon_bytes": 60 * MB, "heap_resident_bytes": 206 * MB, "heap_dirty_bytes": 200 * MB}
	pid = fake(values=values, held_mb=306, freed_mb=200, settings={"slack_mb": ["16", "default"], "slack_pct": ["90", "environment"]})

	done = ctl("diagnose", pid, FOR)

	assert done.returncode == 0 and re.search(r"kept if free +up to \d+\.\d MB, by MT_SLACK_MB", done.stdout), done
	assert re.search(r"reusable heap +200\.0 MB", done.stdout) and re.search(r"a trim just returned +200\.0 MB", done.stdout), done


@pytest.mark.parametrize("program", ["env -u LD_PRELOAD sleep 60", f"{PYTHON} -c 'import time; kept = b\"x\" * (40 << 20); time.sleep(60)'"])
def test_an_exec_meanwhile_ends_the_diagnosis(ctl, mtctl, spawn, plain, program):
	process = spawn([mtctl, "run", "--min-mb=0", "--", PYTHON, "-c", "import os, time; print('ready', flush=True); time.sleep(1.5);"
	                 f"os.execvp('sh', ['sh', '-c', {'exec ' + program!r}])"], plain)
	assert process.stdout.readline() == "ready\n"

	done = ctl("diagnose", process.pid, "--for=4")

	assert done.returncode == VERDICTS["unknown"] and "ran another program (exec) during the diagnosis" in done.stdout, done
	assert "does not answer" not in done.stdout and f"mtctl diagnose {process.pid}." in done.stdout, done


def test_a_cleanup_is_asked_for_once_that_collects_only_with_gc_and_with_no_trim_none(ctl, fake):
	pid = fake(values=FLAT)

	assert ctl("diagnose", pid, FOR, "--no-trim").returncode == 0
	assert records_of(ctl, pid) == []
	assert ctl("diagnose", pid, FOR).returncode == 0
	assert ctl("diagnose", pid, FOR, "--gc").returncode == 0
	assert [record["level"] for record in records_of(ctl, pid)] == ["purge", "light"]


def test_json_has_every_figure_with_its_unit_in_its_name(ctl, fake):
	done = ctl("diagnose", fake(values=FLAT), FOR, "--gc", "--json")
	said = json.loads(done.stdout)

	assert (said["verdict"], said["exit_code"], done.returncode) == ("healthy", 0, 0)
	assert said["findings"][0]["figures"]["heap_live_bytes"] == 5 * MB
	assert said["last"]["live_bytes"] == 5 * MB
	assert said["trends"]["live"]["shape"] == "flat" and abs(said["trends"]["live"]["slope_bytes_per_s"]) < MB
	assert said["samples_count"] > 10 and 1.5 < said["looked_s"] < 10
	assert said["trim"]["level"] == "light" and said["trim"]["duration_ns"] == 12_300_000
	units = ("_bytes", "_count", "_per_s", "_s", "_ns")
	figures = [*said["last"], *said["findings"][0]["figures"]]
	assert [name for name in figures if not name.endswith(units)] == []


def test_only_a_heavy_cleanup_is_followed_by_a_second_look_at_the_devices(ctl, fake):
	"""A Python program that uses CUDA waited for it after a purge, too: 1.5 s, whose figure nobody read."""
	pid = fake(values={**FLAT, "gpu_reserved_bytes": 500 * MB, "gpu_allocated_bytes": 100 * MB}, cuda="libcuda.so.1")
	began = time.monotonic()
	purge = json.loads(ctl("diagnose", pid, "--for=0.3", "--json").stdout)
	between = time.monotonic()
	heavy = json.loads(ctl("diagnose", pid, "--for=0.3", "--gc", "--json").stdout)

	assert (purge["trim"]["level"], heavy["trim"]["level"]) == ("purge", "heavy")
	assert time.monotonic() - between > 1.5 and between - began < time.monotonic() - between - 1


def test_what_is_no_time_is_refused(ctl, fake):
	done = ctl("diagnose", fake(values=FLAT), "--for", "5x")

	assert done.returncode == USAGE and "a duration from 100 ms to 24 h" in done.stderr


def test_for_a_process_without_the_shim_the_command_to_start_it_is_printed(ctl, spawn, plain, wait_for):
	process = spawn(["/bin/sh", "-c", "sleep 60; true", "it's"], plain)
	# In the middle of exec the name is the new one already, and the words are not there yet.
	wait_for(lambda: pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"/bin/sh\0"))
	words = r"mtctl run -- /bin/sh -c 'sleep 60; true' 'it'\''s'"

	done = ctl("diagnose", process.pid, FOR)

	assert done.returncode == NOT_SHIMMED
	assert "does not carry the shim" in done.stderr and done.stderr.endswith(words + "\n")
	assert ctl("stat", process.pid).stderr.endswith(words + "\n")


def test_no_such_process_and_no_process_at_all_are_refused(ctl, spawn, plain):
	process = spawn(["/bin/true"], plain)
	process.wait()

	assert ctl("diagnose", process.pid, FOR).returncode == NO_PROCESS
	assert ctl("diagnose", "that-one", FOR).returncode == NO_PROCESS
	assert ctl("diagnose").returncode == USAGE
	assert ctl("diagnose", os.getpid(), os.getpid()).returncode == USAGE


def test_a_sleeping_process_is_judged_by_the_kernels_figures(ctl, fake):
	done = ctl("diagnose", fake(awake=False), FOR)

	assert done.returncode == 0, done.stdout + done.stderr
	assert done.stdout.startswith("healthy: RSS flat at ") and "asleep: it holds less anonymous memory than MT_MIN_MB" in done.stdout
	assert "heap  " not in done.stdout and "MT_GC_ROUNDS" not in done.stdout, "what is not known is not said"


@pytest.fixture
def sampled(wait_for, mt_dir):
	"""sampled(pid, count): waits until somebody has looked so many times; each look asks for fresh figures."""
	def wait(pid, count):
		wait_for(lambda: stats_raw.figures(mt_dir, pid).get("requests_count", 0) >= count, 30, f"{count} looks")
	return wait


def test_of_a_process_that_ends_meanwhile_nothing_is_known(mtctl, fake, plain, spawn, sampled):
	pid = fake(values=FLAT)
	look = spawn([mtctl, "diagnose", pid, "--for=60"], plain)
	sampled(pid, 4)
	os.kill(pid, signal.SIGKILL)
	text, _ = look.communicate(timeout=20)

	assert look.returncode == VERDICTS["unknown"]
	assert text.startswith("unknown: the process ended during the diagnosis")


def test_ctrl_c_ends_the_sampling_and_the_verdict_is_printed(mtctl, fake, plain, spawn, sampled):
	pid = fake(values=FLAT)
	look = spawn([mtctl, "diagnose", pid, "--for=60", "--json"], plain)
	# A few of them more than a verdict takes.
	sampled(pid, 16)
	look.send_signal(signal.SIGINT)
	said = json.loads(look.communicate(timeout=20)[0])

	assert (look.returncode, said["verdict"], said["interrupted"]) == (0, "healthy", True)
	assert said["looked_s"] < 50


def test_a_process_that_does_not_reply_is_judged_by_its_last_figures(ctl, fake):
	pid, began = fake(values=FLAT, deaf=True), time.monotonic()
	said = json.loads(ctl("diagnose", pid, "--for=6", "--json").stdout)

	assert said["trim"] is None and said["verdict"] == "healthy" and not said["answers"]
	assert said["samples_count"] > 15, "one that does not answer is waited for at each look"
	assert time.monotonic() - began < 25, "it is asked for a trim all the same"
	assert "it does not reply" in ctl("diagnose", pid, "--for=4").stdout


def test_hostile_text_reaches_no_terminal(ctl, fake):
	done = ctl("diagnose", fake(values=FLAT, text="\x1b[31m\xff{}\n"), FOR)

	assert not re.search(r"[^\x20-\x7e\n]", done.stdout), repr(done.stdout)


def test_a_forged_file_is_not_believed(ctl, fake):
	done = ctl("diagnose", fake(values=FLAT, other_pid=1), FOR)

	assert done.returncode == VERDICTS["unknown"] and "another process" in done.stdout


def test_a_tree_is_diagnosed_as_a_whole_and_one_by_one(ctl, fake, spawn, plain, tmp_path, mt_dir):
	"""A parent without the shim, and two children that look shimmed."""
	library = tmp_path / "libmtshim.so"
	library.write_bytes(bytes(8192))
	options = [json.dumps({"values": FLAT}), json.dumps({"values": HOARD, "held_mb": 306})]
	script = "import subprocess, sys\n" \
	         "for options in sys.argv[4:]:\n" \
	         "	child = subprocess.Popen([sys.executable, *sys.argv[1:4], options], stdin=0, stdout=subprocess.PIPE, text=True)\n" \
	         "	assert child.stdout.readline() == 'ready\\n'\n" \
	         "print('ready', flush=True)\n" \
	         "child.wait()\n"
	parent = spawn([PYTHON, "-c", script, FAKE, library, mt_dir, *options], plain)
	assert parent.stdout.readline() == "ready\n"

	done = ctl("diagnose", parent.pid, "--for=4", "--tree", "--no-trim", "--json")
	said = json.loads(done.stdout)

	assert done.returncode == VERDICTS["hoard"], done.stderr
	assert sorted(one["verdict"] for one in said["processes"]) == ["healthy", "unknown"]
	assert said["family"]["processes_count"] == 3 and said["family"]["pss_bytes"] > 0
	text = ctl("diagnose", parent.pid, "--for=4", "--tree", "--no-trim").stdout
	assert re.search(r"^hoard: process \d+ \(\w+", text) and "3 processes hold" in text
	assert "does not carry the shim" in text


def test_help_has_every_verdict_with_its_code(ctl):
	text = ctl("diagnose", "--help").stdout

	for word, code in VERDICTS.items():
		assert re.search(rf"^ +{code}  {word} ", text, re.MULTILINE), word


# Four gigabytes are asked for, and none of them used.
RESERVER = "import mmap, time\n" \
           "place = mmap.mmap(-1, 4 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)\n" \
           "small = [object() for _ in range(1000000)]\n" \
           "print('ready', flush=True)\n" \
           "time.sleep(60)\n"


def page_tables_of(pid):
	return int(re.search(r"VmPTE:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) * 1024


def test_reading_pythons_arenas_makes_no_page_resident(control, env, spawn):
	settings = env(MIN_MB=0, PYTHON_MALLOC="off")
	process = spawn([PYTHON, "-c", RESERVER], settings)
	assert process.stdout.readline() == "ready\n"
	before = page_tables_of(process.pid)

	said = json.loads(control(settings, "diagnose", process.pid, FOR, "--no-trim", "--json").stdout)

	assert said["last"]["arenas_live_bytes"] > 10 * MB
	assert page_tables_of(process.pid) - before < MB, "8 MB of page tables were made for the reserved memory"


# Every hundredth object of 100 MB stays, so that each of Python's arenas does.
PINNED_ARENAS = "import time\n" \
                "held = [str(number) * 10 for number in range(1000000)]\n" \
                "held = held[::100]\n" \
                "print('ready', flush=True)\n" \
                "time.sleep(60)\n"


def test_who_is_left_out_by_a_setting_is_advised_to_drop_that_setting(control, env, spawn):
	"""MT_PYTHON_MALLOC=on was advised, which does nothing there, and live bytes that nobody counts were 0.0 MB."""
	settings = env(ENABLE=0)
	process = spawn([PYTHON, "-c", PINNED_ARENAS], settings)
	assert process.stdout.readline() == "ready\n"

	text = control(settings, "diagnose", process.pid, FOR, "--no-trim").stdout

	assert "python-arenas" in text
	assert "without the setting that keeps the library out (MT_ENABLE, MT_ONLY, MT_EXCLUDE)" in re.sub(r"\s+", " ", text)
	assert "MT_PYTHON_MALLOC=on" not in text and "live heap" not in text


def test_python_under_a_low_limit_is_advised_the_setting_that_helps_there(control, env, spawn):
	"""MT_PYTHON_MALLOC=on was advised: 155 of 164 MB stayed, and with =malloc 32."""
	def start(**more):
		process = spawn(["/bin/sh", "-c", "ulimit -v 500000; exec \"$@\"", "-", PYTHON, "-c", PINNED_ARENAS.replace("::100", "::400")],
		                env(TICK_MS=20, **more))
		assert process.stdout.readline() == "ready\n"
		time.sleep(1)
		return process

	settings = env(TICK_MS=20)
	first = start()
	advice = json.loads(control(settings, "advise", first.pid, "--json").stdout)["advice"]
	said = re.sub(r"\s+", " ", control(settings, "diagnose", first.pid, FOR, "--no-trim").stdout)

	assert [one["environment"] for one in advice] == ["MT_PYTHON_MALLOC=malloc"]
	assert "Restart it with MT_PYTHON_MALLOC=malloc" in said and "RLIMIT_AS or RLIMIT_DATA is 4 GB or less" in said
	rss = {how: json.loads(control(settings, "stat", start(PYTHON_MALLOC=how).pid, "--json").stdout)["rss_bytes"] for how in ("on", "malloc")}
	assert rss["malloc"] < rss["on"] / 2, rss


def test_diagnose_counts_between_live_blocks_what_libcs_malloc_holds_and_no_mapping_of_the_program(control, env, spawn, compile_c):
	"""mariadbd's own mappings were 125 MB 'free between live blocks', for which another allocator was advised."""
	settings = env(TICK_MS=20)
	process = spawn([compile_c("own_mappings.c")], settings)
	assert process.stdout.readline() == "ready\n"
	time.sleep(1)

	said = control(settings, "diagnose", process.pid, FOR).stdout
	advice = json.loads(control(settings, "advise", process.pid, "--json").stdout)["advice"]

	assert "libc's malloc for good: the program imports mlockall" in said
	assert "between live blocks" not in said and "MT_ALLOCATOR=jemalloc" not in said, said
	assert advice == []


def test_diagnose_and_doctor_agree_on_the_limit_and_leave_out_reclaimable_pages(ctl, fake, tmp_path):
	"""The process publishes an upper bound, pages of files and all; the limit is one of a group above its own, or MT_LIMIT_MB."""
	for name, text in (("memory.current", 490 * MB), ("memory.max", 500 * MB), ("memory.stat", f"inactive_file {300 * MB}")):
		(tmp_path / name).write_text(f"{text}\n")
	pid = fake(limit_source=str(tmp_path / "memory.max"),
	           values={**FLAT, "pressure_limit_bytes": 500 * MB, "pressure_used_bytes": 490 * MB})

	said = json.loads(ctl("diagnose", pid, FOR, "--no-trim", "--json").stdout)

	line = f"190.0 MB of 500.0 MB used, 38.0 % ({tmp_path}"
	assert f"ok    memory: {line}/memory.max)" in ctl("doctor", pid).stdout
	assert (said["group"]["directory"], said["group"]["usage_bytes"]) == (str(tmp_path), 490 * MB)
	own = fake(limit_source="MT_LIMIT_MB", values={**FLAT, "pressure_limit_bytes": 5 << 40, "pressure_used_bytes": 1})
	assert "(MT_LIMIT_MB)" in ctl("doctor", own).stdout


def test_a_diagnosis_that_is_ended_switches_the_profiler_off_again(mtctl, control, env, spawn):
	settings = env(MIN_MB=0, PROF=1, ALLOCATOR="jemalloc")
	process = spawn([PYTHON, "-c", "print('ready', flush=True); import time; time.sleep(60)"], settings)
	assert process.stdout.readline() == "ready\n"
	before = json.loads(control(settings, "stat", process.pid, "--json").stdout)["prof_state"]
	plain = {**settings, "LD_PRELOAD": ""}
	look = subprocess.Popen([mtctl, "diagnose", str(process.pid), "--for=60", "--json"], env=plain, stdout=subprocess.PIPE, text=True)
	time.sleep(3)
	during = json.loads(control(settings, "stat", process.pid, "--json").stdout)["prof_state"]
	look.send_signal(signal.SIGTERM)
	said = json.loads(look.communicate(timeout=30)[0])

	assert said["interrupted"] and during != before
	assert json.loads(control(settings, "stat", process.pid, "--json").stdout)["prof_state"] == before


def test_ended_processes_of_a_tree_are_named(mtctl, ctl, fake, plain):
	"""The family is this test itself: what it has started descends from it."""
	stays, goes = fake(values=FLAT), fake(values=FLAT)
	look = subprocess.Popen([mtctl, "diagnose", str(os.getpid()), "--tree", "--no-trim", "--for=4"], env=plain,
	                        stdout=subprocess.PIPE, text=True)
	time.sleep(2)
	os.kill(goes, signal.SIGKILL)
	text = look.communicate(timeout=20)[0]

	assert re.search(rf"^ *{goes} .* ended$", text, re.MULTILINE), text
	assert re.search(rf"^ *{stays} .* healthy$", text, re.MULTILINE), text
