"""`mtctl export`: the metrics themselves, read by the parsers of Prometheus, and the file for node_exporter."""
import json
import os
import re
import signal
import stat
import threading

import pytest

import fake_shim
from metrics_helpers import families, lint, parse_old, samples, value
from mtctl_helpers import MB, ROOT, USAGE
from mtctl_helpers import ctl, fake, plain  # noqa: F401 (fixtures)
from test_mtctl_gpu import DEVICE, GPU

RANKED = dict(GPU, rank="3", world_size=8, cleanups={"0": 2, "5": 1},
              values=dict(GPU["values"], ticks_cost_ns=1_500_000_001, uptime_ms=1234, psi_some_ns=7000, purge_count=4,
                          budget_ratio_thousandths=30, load_thousandths=1500, tick_ms=100, pressure_used_bytes=90,
                          pressure_limit_bytes=100, rss_limit_bytes=500 * MB, heap_active_bytes=210 * MB,
                          heap_resident_bytes=280 * MB, heap_mapped_bytes=290 * MB))


def exported(ctl, *words):
	got = ctl("export", *words)
	assert (got.returncode, got.stderr) == (0, "")
	return got.stdout


# ---- the text ----

def test_every_figure_is_there_in_base_units(fake, ctl):
	pid = fake(**RANKED)

	text = exported(ctl)

	for name, expected in {"mtshim_heap_live_bytes": 200 * MB, "mtshim_ticks_cost_seconds_total": 1.500000001,
	                       "mtshim_uptime_seconds": 1.234, "mtshim_psi_some_seconds_total": 7e-6, "mtshim_purge_total": 4,
	                       "mtshim_budget_ratio": 0.03, "mtshim_load": 1.5, "mtshim_tick_seconds": 0.1,
	                       "mtshim_rss_limit_bytes": 500 * MB, "mtshim_up": 1, "mtshim_world_size": 8}.items():
		assert value(text, name, pid=pid) == expected, name
	told = {re.sub("(_seconds)?(_total|_info)?$", "", name) for name, _ in samples(text, pid)}
	for field in fake_shim.FIELDS:
		stem = re.sub("_(ns|us|ms|count|thousandths)$", "", field)
		unknown = field.startswith("framework_") or field in ("python_blocks_count", "gc_rounds_step", "gpu_process_bytes", "gpu_unattributed_bytes",
		                                                      "gpu_free_bytes", "gpu_total_bytes")
		assert ("mtshim_" + stem in told) != unknown, field


def test_types_units_and_help_are_as_the_specification_wants(fake, ctl):
	fake(**RANKED)

	found = families(exported(ctl))

	for name, family in found.items():
		assert family.documentation and family.type in ("gauge", "counter", "info")
		assert not family.unit or name.endswith("_" + family.unit)
		assert re.search("_(bytes|seconds|ratio)$", name) is None or family.unit, name
		assert not re.search("_(ns|us|ms|mb|count|thousandths|pct)$", name)
	assert found["mtshim_heap_live_bytes"].unit == "bytes" and found["mtshim_purge"].type == "counter"
	assert found["mtshim_build"].type == "info"


def test_promtool_has_nothing_to_say_about_the_older_format(fake, ctl):
	fake(**RANKED)
	fake(awake=False)

	text = exported(ctl, "--format=old")

	assert lint(text) == (0, "")
	assert lint(text.replace("mtshim_purge_total", "mtshim_purge"))[0] != 0
	assert {family.name for family in parse_old(text)} >= {"mtshim_heap_live_bytes", "mtshim_purge", "mtshim_build_info"}


def test_both_formats_have_the_same_values(fake, ctl):
	pid = fake(**RANKED)

	new, old = samples(exported(ctl), pid), samples(exported(ctl, "--format=old"), pid, parse_old)

	assert {key for key in new} == {key for key in old}
	assert all(new[key] == old[key] for key in new if key[0] != "mtshim_rss_bytes")


def test_labels_say_which_process_rank_and_device_it_is(fake, ctl):
	pid = fake(**dict(RANKED, devices=[DEVICE, dict(DEVICE, ordinal=1, allocated_bytes=5)]))

	text = exported(ctl)

	assert value(text, "mtshim_device_allocated_bytes", pid=pid, comm="fake", rank="3", device="1") == 5
	assert value(text, "mtshim_device_info", pid=pid, device="0", name="NVIDIA Something 80GB", pci="0000:3b:00.0", mode="pool") == 1
	assert value(text, "mtshim_cleanups_total", pid=pid, reason="idle") == 2
	assert value(text, "mtshim_cleanups_total", pid=pid, reason="request") == 1
	assert value(text, "mtshim_cleanups_total", pid=pid, reason="pressure") == 0


def test_without_a_rank_and_without_cuda_there_is_no_word_of_them(fake, ctl):
	pid = fake()

	found = samples(exported(ctl), pid)

	assert not [key for key in found if dict(key[1]).get("rank") is not None or re.search("gpu_|device_|world", key[0])]


def test_what_is_not_known_is_not_there(fake, ctl):
	known = fake(**dict(RANKED, devices=[DEVICE]))
	unknown = fake(**dict(GPU, devices=[dict(DEVICE, process_known=0, others_known=0)]))

	text = exported(ctl)

	for name in ("mtshim_device_process_bytes", "mtshim_device_unattributed_bytes", "mtshim_device_others_bytes",
	             "mtshim_device_others", "mtshim_pressure_used_bytes", "mtshim_pressure_limit_bytes", "mtshim_rss_limit_bytes"):
		assert [key for key in samples(text, known) if key[0] == name], name
		assert not [key for key in samples(text, unknown) if key[0] == name], name


def test_a_sleeping_process_has_an_rss_and_a_refused_one_is_down(fake, ctl):
	asleep, refused = fake(awake=False), fake(broken=True)

	text = exported(ctl)

	assert {key[0] for key in samples(text, asleep)} == {"mtshim_rss_bytes"}
	assert {key[0] for key in samples(text, refused)} == {"mtshim_rss_bytes", "mtshim_up"}
	assert value(text, "mtshim_up", pid=refused) == 0 and value(text, "mtshim_rss_bytes", pid=asleep) > MB
	assert value(text, "mtshim_processes", state="asleep") >= 1 and value(text, "mtshim_processes", state="refused") >= 1


@pytest.mark.parametrize("hostile", ["\x1b[31m\x07\n\xff\x9b", "\"} 1\nmtshim_up{pid=\"1\"} 7\n", "\\\"\\", "{}=,# EOF", "x" * 255])
def test_hostile_text_is_a_label_and_nothing_else(fake, ctl, hostile):
	pid = fake(**dict(GPU, text=hostile, rank="1"))

	for words, parse in ((), None), (("--format=old",), parse_old):
		text = exported(ctl, *words)
		assert not re.search("[^\x20-\x7e\n]", text)
		found = samples(text, pid, *[parse] if parse else [])
		assert len([key for key in found if key[0] == "mtshim_device_info"]) == 1
		assert {dict(key[1])["comm"] for key in found} == {re.sub("[^\x20-\x7e]", "?", hostile)[:31]}
		assert not [key for key in samples(text, 1, *[parse] if parse else []) if key[0] == "mtshim_up"]


# ---- the real shim ----

def test_cleanups_of_a_real_process_are_counted_by_their_reason(puppet, env, awake, control):
	settings = dict(env(MIN_MB=0, RSS_LIMIT_MB=3000, BUDGET_PCT=5), RANK="2")
	pid = puppet(settings).pid
	awake(pid, settings)

	for _ in range(3):
		assert control(settings, "trim", pid).returncode in (0, 1)

	text = control(settings, "export").stdout
	assert value(text, "mtshim_cleanups_total", pid=pid, reason="request", rank=2) == 3
	assert value(text, "mtshim_rss_limit_bytes", pid=pid) == 3000 * MB
	assert value(text, "mtshim_budget_ratio", pid=pid) == 0.05
	seen = json.loads(control(settings, "stat", pid, "--json").stdout)
	assert seen["cleanups"]["request"] == 3 and seen["cleanups"]["round"] == 0


# ---- the file ----

def test_the_file_is_put_in_place_whole_and_readable(fake, ctl, tmp_path):
	pid = fake(**RANKED)
	mask = os.umask(0o077)

	assert exported(ctl, "--textfile", tmp_path) == ""

	os.umask(mask)
	assert sorted(file.name for file in tmp_path.iterdir()) == ["libmtshim.so", "mtshim.prom"]
	assert stat.S_IMODE((tmp_path / "mtshim.prom").stat().st_mode) == 0o644
	text = (tmp_path / "mtshim.prom").read_text()
	assert lint(text) == (0, "") and samples(text, pid, parse_old)


def test_no_reader_ever_sees_half_of_it(fake, ctl, tmp_path):
	fake(**RANKED)
	target, torn, done = tmp_path / "x.prom", [], threading.Event()
	exported(ctl, "--textfile", tmp_path, "--name", "x.prom")

	def read():
		while not done.is_set():
			text = target.read_text() if target.exists() else ""
			if not re.search(r"\nmtshim_device_nvml_age_seconds\{.*\} [0-9.]+\n\Z", text):
				torn.append(text)
	reader = threading.Thread(target=read)
	reader.start()
	for _ in range(20):
		exported(ctl, "--textfile", tmp_path, "--name", "x.prom", "--once")
	done.set()
	reader.join()

	assert not torn
	assert not [file for file in tmp_path.iterdir() if file.name.startswith(".")]


def test_at_intervals_until_it_is_told_to_end_and_then_the_file_goes(mtctl, plain, spawn, wait_for, tmp_path):
	target = tmp_path / "mtshim.prom"
	process = spawn([mtctl, "export", "--textfile", tmp_path, "--interval=0.1"], plain)
	first = wait_for(lambda: target.exists() and target.stat().st_ino)

	wait_for(lambda: target.stat().st_ino != first)
	process.send_signal(signal.SIGTERM)

	assert process.wait(timeout=10) == 0 and not target.exists()


def test_at_intervals_an_error_is_said_once_and_passes(mtctl, plain, spawn, wait_for, tmp_path):
	folder = tmp_path / "later"
	process = spawn([mtctl, "export", "--textfile", folder, "--interval=0.1"], plain)
	assert "No such file" in process.stderr.readline()

	folder.mkdir()

	wait_for((folder / "mtshim.prom").exists)
	process.send_signal(signal.SIGINT)
	assert process.wait(timeout=10) == 0 and process.stderr.read() == ""


def link(place):
	place.symlink_to("/etc/passwd")


def dangling(place):
	place.symlink_to("nowhere")


def foreign(place):
	place.write_text("theirs")
	os.chown(place, 12345, 12345)


@pytest.mark.parametrize("make", [link, dangling, os.mkdir, os.mkfifo, foreign])
def test_what_is_in_its_place_and_not_ours_is_left_alone(ctl, tmp_path, make):
	if make is foreign and os.geteuid() != 0:
		pytest.skip("only root can give a file away")
	target = tmp_path / "mtshim.prom"
	make(target)
	before = os.lstat(target)

	got = ctl("export", "--textfile", tmp_path)

	assert (got.returncode, got.stdout) == (USAGE, "") and "it is left alone" in got.stderr and got.stderr.count("\n") == 1
	assert os.lstat(target).st_ino == before.st_ino and [file.name for file in tmp_path.iterdir()] == ["mtshim.prom"]


def test_a_folder_in_which_anybody_may_replace_it_is_refused(ctl, tmp_path):
	tmp_path.chmod(0o777)
	assert "anybody may write there" in ctl("export", "--textfile", tmp_path).stderr

	tmp_path.chmod(0o1777)
	assert ctl("export", "--textfile", tmp_path).returncode == 0


def test_a_full_disk_leaves_the_old_file(ctl, tmp_path, mtctl, plain, run):
	(tmp_path / "mtshim.prom").write_text("old")

	got = run(["/bin/sh", "-c", 'ulimit -f 0; trap "" XFSZ; exec "$@"', "sh", mtctl, "export", "--textfile", tmp_path], plain)

	assert got.returncode == USAGE and "File too large" in got.stderr
	assert [file.name for file in tmp_path.iterdir()] == ["mtshim.prom"] and (tmp_path / "mtshim.prom").read_text() == "old"


@pytest.mark.parametrize("words", [["--textfile", ".", "--name", "../x.prom"], ["--textfile", ".", "--name", "x.txt"],
                                   ["--textfile", ".", "--name", ".x.prom"], ["--once"], ["--interval=3"], ["--format=xml"],
                                   ["--textfile", "/nowhere/at/all"], ["--textfile", "/dev/null"], ["extra"],
                                   ["--textfile", ".", "--once", "--interval=3"], ["--textfile", ".", "--interval=never"]])
def test_a_wrong_use_says_so(ctl, tmp_path, words):
	got = ctl("export", *words)

	assert (got.returncode, got.stdout) == (USAGE, "") and got.stderr


# ---- the document ----

def test_the_document_names_every_alert():
	rules = (ROOT / "scripts" / "prometheus" / "mtshim.rules.yml").read_text()

	told = set(re.findall(r"`(Mtshim\w+)`", (ROOT / "docs" / "metrics.md").read_text()))

	assert told == set(re.findall(r"alert: (\w+)", rules))
