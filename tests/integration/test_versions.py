"""Shims and mtctls of different versions, by the rule of stats_layout.h: mtctl reads its own version alone. Of another one it says so
in one line at once, waits for nothing, and disturbs no process. Against real older builds: make check-versions."""
import ctypes
import json
import mmap
import os
import re
import shutil
import signal
import time

import pytest

import fake_shim
import stats_raw
from mtctl_helpers import FREED, MB, NOTHING, USAGE, files_of
from mtctl_helpers import ctl, fake, plain  # noqa: F401 (fixtures)
from serve_helpers import serve  # noqa: F401 (a fixture)

FUTEX = 202 if os.uname().machine == "x86_64" else 98
NEXT = fake_shim.VERSION + 1
REFUSED = [1, fake_shim.VERSION - 1, NEXT, 99, (1 << 32) - 1]


def told(version):
	return f"made by another version ({version}): restart the process"


def refused(got, version, code=USAGE):
	assert got.returncode == code, got.stdout + got.stderr
	assert told(version) in got.stderr
	assert got.stderr.startswith("mtctl: ") and got.stderr.count("\n") == 1


def listed(ctl):
	"""pid -> what ps says of it; others than this test's are there too."""
	return {one["pid"]: one for one in json.loads(ctl("ps", "--json").stdout)["processes"]}


# ---- versions that are not read ----

@pytest.mark.parametrize("version", REFUSED)
def test_a_version_that_is_not_read_is_refused_by_every_command_in_one_line(fake, ctl, version):
	pid = fake(version=version)

	for words in (["stat", pid], ["stat", pid, "--json", "--cached"], ["stat", pid, "--oom"], ["trim", pid], ["round", pid],
	              ["set", pid, "gc_rounds=7"], ["reset-peak", pid], ["snapshot", pid], ["sites", pid], ["advise", pid]):
		begin = time.monotonic()
		refused(ctl(*words), version)
		assert time.monotonic() - begin < 15, "nothing was waited for"
	os.kill(pid, 0)


@pytest.mark.parametrize("version", REFUSED[1:3])
def test_who_looks_at_many_goes_on_past_a_version_that_is_not_read(fake, ctl, version):
	strange, known = fake(version=version), fake(freed_mb=10)

	states = listed(ctl)
	assert (states[strange]["state"], states[known]["state"]) == ("refused", "awake")
	got = ctl("trim", "--tree", os.getpid())
	assert got.returncode == FREED and "-10.0 MB" in got.stdout, "freed anywhere is success"
	assert got.stderr.count("\n") == 1 and told(version) in got.stderr
	text = ctl("export").stdout
	assert re.search(rf'^mtshim_up\{{pid="{strange}".*\}} 0$', text, re.MULTILINE)
	assert re.search(rf'^mtshim_up\{{pid="{known}".*\}} 1$', text, re.MULTILINE)
	assert f'mtshim_heap_live_bytes{{pid="{known}"' in text and f'mtshim_heap_live_bytes{{pid="{strange}"' not in text


def test_the_page_and_the_live_view_show_it_as_refused(fake, ctl, serve):
	pid, server = fake(version=NEXT), serve()

	assert server.process_of(pid)["state"] == "refused"
	answer = server.get(f"/api/processes/{pid}")
	assert answer.status == 502 and told(NEXT) in answer.json["error"]
	answer = server.post(f"/api/processes/{pid}/trim?level=heavy")
	assert told(NEXT) in answer.text, answer.text
	assert "refused" in ctl("top", "--once", f"--filter={pid}", COLUMNS="120").stdout


def test_diagnose_and_doctor_say_why_they_know_so_little(fake, ctl):
	pid = fake(version=NEXT)

	doctor = ctl("doctor", pid)
	assert doctor.returncode == NOTHING and told(NEXT) in doctor.stdout
	diagnosed = ctl("diagnose", pid, "--for=1s")
	assert told(NEXT) in diagnosed.stdout


def test_a_recorder_keeps_what_the_kernel_says_of_a_version_that_is_not_read(fake, mtctl, plain, spawn, wait_for, tmp_path):
	pid, file = fake(version=NEXT), tmp_path / "run.jsonl"
	recorder = spawn([mtctl, "record", "-o", file, "--interval=0.05", "--tree", str(pid)], plain)

	wait_for(lambda: file.exists() and file.read_text().count('"sample"') > 2)
	recorder.send_signal(signal.SIGINT)
	recorder.wait(timeout=10)
	lines = [json.loads(line) for line in file.read_text().splitlines()]
	about = next(line for line in lines if line["kind"] == "process")
	assert about["state"] == "refused" and told(NEXT) in about["why"]
	sample = next(line for line in lines if line["kind"] == "sample")
	assert sample["rss_bytes"] > 0 and "heap_live_bytes" not in sample


def test_a_control_file_of_another_version_than_its_stats_file_is_not_written(fake, ctl, mt_dir):
	pid = fake()
	control = files_of(pid, mt_dir, "control")
	data = bytearray(control.read_bytes())
	data[8:12] = NEXT.to_bytes(4, "little")
	control.write_bytes(data)

	got = ctl("trim", pid)
	refused(got, NEXT)
	assert "the control file" in got.stderr and control.read_bytes() == data
	assert json.loads(ctl("stat", pid, "--json").stdout)["requests_count"] == 0


def test_another_layout_under_the_same_version_is_refused_as_another_version(fake, ctl):
	"""A build that changed the layout and not the number: its figures would be read from wrong places."""
	pid = fake(record_more=8)

	refused(ctl("stat", pid), fake_shim.VERSION)
	assert listed(ctl)[pid]["state"] == "refused"


# ---- the present version ----

def test_numbers_without_a_word_are_question_marks_and_counted_as_other(fake, ctl):
	pid = fake(reason=29, gc_state=77, gpu_state=88, freed_mb=10, cleanups={"1": 4, "20": 2, "31": 3})

	ctl("trim", pid)
	got = json.loads(ctl("stat", pid, "--json").stdout)
	assert (got["records"][0]["reason"], got["records"][0]["gc_state"], got["records"][0]["gpu_state"]) == ("?", "?", "?")
	assert (got["cleanups"]["live_drop"], got["cleanups"]["other"]) == (4, 5)
	assert re.search(rf'mtshim_cleanups_total\{{pid="{pid}".*reason="other"\}} 5', ctl("export").stdout)


def test_an_error_that_only_a_later_shim_knows_is_told_as_such(fake, ctl):
	got = ctl("set", fake(request_error=99), "gc_rounds=7")

	assert got.returncode == USAGE and "does not know" in got.stderr


def test_a_setting_that_the_shim_does_not_have_is_put_down_to_its_version(fake, ctl):
	got = ctl("set", fake(request_error=3), "gc_rounds=7")

	assert got.returncode == USAGE and "its shim is of another version than this mtctl, and has no such setting" in got.stderr


# ---- the real shim ----

def ring(mt_dir, pid, kind, level):
	"""What a later mtctl would write into the control file; the number of the request."""
	control = files_of(pid, mt_dir, "control")
	with open(control, "r+b") as file:
		magic, version, word, seq, *_ = fake_shim.CONTROL.unpack(file.read(fake_shim.CONTROL.size))
		file.seek(0)
		file.write(fake_shim.CONTROL.pack(magic, version, word, seq + 1, kind, level, b"", b""))
		file.flush()
		with mmap.mmap(file.fileno(), 4096) as area:
			at = ctypes.c_uint32.from_buffer(area, 12)
			at.value += 1
			ctypes.CDLL(None).syscall(FUTEX, ctypes.byref(at), 1, 1 << 30, 0, 0, 0) # wake
			del at # or the mapping cannot be closed
	return seq + 1


@pytest.mark.parametrize("kind, level", [(1000, 0), (1 << 31, 0), (fake_shim.TRIM, 3)])
def test_the_shim_answers_a_request_that_it_does_not_know(env, puppet, awake, stats, wait_for, mt_dir, kind, level):
	"""It used to say nothing, and mtctl waited until its time was over."""
	settings = env(MIN_MB=0)
	actor = puppet(settings)
	before = awake(actor.pid, settings)

	seq = ring(mt_dir, actor.pid, kind, level)

	wait_for(lambda: stats_raw.figures(mt_dir, actor.pid).get("request_seq") == seq)
	after = stats_raw.figures(mt_dir, actor.pid)
	assert after["request_error"] == 10 and after["heavy_count"] == before["heavy_count"]
	assert actor.tell("hello") == "hello"


def test_a_library_that_was_replaced_is_named_and_the_process_goes_on(env, puppet, awake, control, shim, tmp_path):
	library = tmp_path / "lib" / "libmtshim.so"
	library.parent.mkdir()
	shutil.copy(shim, library)
	settings = env(MIN_MB=0) | {"LD_PRELOAD": str(library)}
	actor = puppet(settings)
	awake(actor.pid, settings)
	assert json.loads(control(settings, "stat", actor.pid, "--json").stdout)["library_deleted"] is False
	assert "deleted from disk" not in control(settings, "stat", actor.pid).stdout

	shutil.copy(shim, tmp_path / "new")
	(tmp_path / "new").rename(library) # as make install and dpkg do

	assert json.loads(control(settings, "stat", actor.pid, "--json").stdout)["library_deleted"] is True
	assert "an older library, deleted from disk" in control(settings, "stat", actor.pid).stdout
	doctor = control(settings, "doctor", actor.pid).stdout
	assert "runs an older library, deleted from disk" in doctor and "written in place" not in doctor
	assert control(settings, "trim", actor.pid).returncode == 0
	assert control(settings, "ps").stdout.count(str(actor.pid)) == 1
	assert actor.tell("hello") == "hello"


def test_a_library_that_is_written_in_place_is_told_by_doctor(env, puppet, awake, control, shim, tmp_path):
	library = tmp_path / "libmtshim.so"
	shutil.copy(shim, library)
	settings = env(MIN_MB=0) | {"LD_PRELOAD": str(library)}
	actor = puppet(settings)
	awake(actor.pid, settings)
	assert "written in place" not in control(settings, "doctor", actor.pid).stdout

	time.sleep(0.05)
	with open(library, "r+b") as file: # the same bytes: others would be the end of the process
		first = file.read(1)
		file.seek(0)
		file.write(first)

	assert "written in place while it runs" in control(settings, "doctor", actor.pid).stdout


def test_doctor_says_which_version_of_the_library_run_would_preload(ctl, shim, tmp_path):
	other, silent = tmp_path / "a" / "libmtshim.so", tmp_path / "b" / "libmtshim.so"
	for path in (other, silent):
		path.parent.mkdir()
	data = shim.read_bytes()
	assert data.count(b"@(#)libmtshim.so ") == 1
	other.write_bytes(data.replace(b"@(#)libmtshim.so 0", b"@(#)libmtshim.so 7"))
	silent.write_bytes(data.replace(b"@(#)libmtshim.so ", b"@(#)libother1.so "))

	assert "this mtctl is version" not in ctl("doctor", MTSHIM_LIBRARY=str(shim)).stdout
	told = ctl("doctor", MTSHIM_LIBRARY=str(other))
	assert re.search(r"version 7\.\d+\.\d+; this mtctl is version \d", told.stdout) and told.returncode == NOTHING
	assert "version unknown; this mtctl" in ctl("doctor", MTSHIM_LIBRARY=str(silent)).stdout
	assert "version unknown; this mtctl" in ctl("doctor", MTSHIM_LIBRARY="/dev/zero").stdout


def test_sites_under_a_replaced_library_have_their_names_and_none_of_the_shim(env, awake, control, shim, tmp_path, compile_c, steer):
	library = tmp_path / "libmtshim.so"
	shutil.copy(shim, library)
	settings = env(MIN_MB=0, PROF="on", MT_MALLOC_CONF="lg_prof_sample:15") | {"LD_PRELOAD": str(library)}
	leak = steer([compile_c("sites_leak.c")], settings)
	assert leak.process.stdout.readline() == "ready\n"
	awake(leak.pid, settings)
	library.unlink()

	got = control(settings, "sites", leak.pid, "--json")

	assert got.returncode == 0, got.stderr
	sites = json.loads(got.stdout)["sites"]
	assert sites[0]["where"].startswith("early_block at sites_leak.c:")
	assert not any("libmtshim" in frame or "je_malloc" in frame for site in sites for frame in site["frames"])


def test_versions_share_a_directory(fake, ctl, mt_dir):
	pids = {fake(version=version): version for version in (2, 3, fake_shim.VERSION, NEXT, 99)}

	states = listed(ctl)
	assert {version: states[pid]["state"] for pid, version in pids.items()} == \
		{2: "refused", 3: "refused", fake_shim.VERSION: "awake", NEXT: "refused", 99: "refused"}
	for pid in pids:
		os.kill(pid, signal.SIGKILL)
		os.waitpid(pid, 0)
	ctl("ps")
	assert list(mt_dir.iterdir()) == [], "files of the dead are swept by name, of whatever version"
