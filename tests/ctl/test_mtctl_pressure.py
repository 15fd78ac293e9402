"""What mtctl says about limits, pressure and reports of MT_RSS_LIMIT_MB, against fake_shim.py: handmade figures, forged and hostile ones."""
import json
import os
import re
import subprocess
import sys

import pytest

from mtctl_helpers import MB
from mtctl_helpers import ctl, fake, plain  # noqa: F401 (fixtures)

SOURCE = "/sys/fs/cgroup/memory/job/memory.limit_in_bytes"
SETTINGS = {"pressure": ["1", "default"], "warn_pct": ["85", "default"], "crit_pct": ["90", "default"],
            "clear_pct": ["5", "default"], "cooldown_ms": ["10000", "default"], "cgroup": ["", "default"],
            "rss_limit_mb": ["0", "default"]}
PRESSED = {"limit_source": SOURCE, "settings": SETTINGS,
           "values": {"pressure_level": 1, "pressure_used_bytes": 1764 * MB, "pressure_limit_bytes": 2000 * MB,
                      "pressure_warn_count": 3, "pressure_critical_count": 1, "pressure_clean_count": 4,
                      "pressure_returned_bytes": 512 * MB, "psi_some_ns": 1_250_000_000, "memory_max_count": 12,
                      "pressure_wait_count": 2, "pressure_wait_ns": 31_500_000,
                      "load_thousandths": 1250, "cpus_count": 2, "cpu_ns": 12_300_000_000}}
LIMIT_REPORT = {"number": 1, "time_ns": 1_700_000_000_000_000_000, "limit_bytes": 2048 * MB, "rss_bytes": 2050 * MB,
         "anon_bytes": 1900 * MB, "file_bytes": 100 * MB, "shmem_bytes": 50 * MB, "swap_bytes": 5 * MB,
         "heap_live_bytes": 1500 * MB, "heap_dirty_bytes": 1 * MB, "heap_pinned_bytes": 99 * MB,
         "heap_metadata_bytes": 20 * MB, "other_anon_bytes": 280 * MB, "threads_count": 7, "advice": "live memory: mtctl diagnose says whose"}


def settings(**values):
	return {**SETTINGS, **{name: [str(value), "environment"] for name, value in values.items()}}


# ---- stat ----

def test_stat_has_a_section_for_pressure(fake, ctl):
	text = ctl("stat", fake(**PRESSED), "--all").stdout

	assert f"\nlimit       2000.0 MB  88.2 % of it used, pressure warn ({SOURCE})\n" in text and text.count(SOURCE) == 1
	assert "\npressure: warn\n" in text
	for line in ("thresholds warn at 85 %, critical at 90 %, over 5 points lower; 10000 ms between two cleanups",
	             "reached    warn 3 times, critical 1; the container has run into its limit 12 times",
	             "stalls     tasks have waited for memory for 1250.0 ms (PSI, some)",
	             "cleanups   4 for pressure, which returned 512.0 MB",
	             "reclaims   threads that allocated returned free memory 2 times before they went on, 31.5 ms together",
	             "load       1.25 on 2 CPUs; this process has used 12.3 s of CPU time"):
		assert f"\n  {line}\n" in text, line
	assert "  reports " not in text


def test_stat_says_what_it_does_not_know_of_limits(fake, ctl):
	assert "-  none is known\n" in ctl("stat", fake(), "--all").stdout
	off = ctl("stat", fake(settings=settings(pressure=0)), "--all").stdout
	assert "\npressure: not looked at (MT_PRESSURE=0)\n" in off and "thresholds" not in off
	odd = ctl("stat", fake(values={"pressure_level": 99, "pressure_limit_bytes": 1, "pressure_used_bytes": (1 << 64) - 1,
	                               "psi_some_ns": (1 << 64) - 1}), "--all").stdout
	assert "\npressure: ?\n" in odd


def test_json_has_the_figures_and_where_the_limit_is(fake, ctl):
	seen = json.loads(ctl("stat", fake(**PRESSED), "--json").stdout)

	assert {name: seen[name] for name in PRESSED["values"] if name in seen} == {name: value for name, value in PRESSED["values"].items() if name in seen}
	assert "load_thousandths" not in seen and seen["load"] == 1.25
	assert seen["limit_source"] == SOURCE and seen["limit_reports"] == []


@pytest.mark.parametrize("sources, level, words, text", [
	(0b1, 1, ["limit"], "warn 91.0 %, limit"),
	(0b1110, 2, ["events", "stall", "device"], "critical 91.0 %, events, stall, device"),
	(0b10000, 2, ["rss"], "critical 91.0 %, rss")])
def test_a_cleanup_for_pressure_says_what_asked_for_it(fake, ctl, sources, level, words, text):
	pid = fake(freed_mb=10, reason=12, pressure_sources=sources, pressure_level=level, pressure_used_mb=910,
	           pressure_limit_mb=1000)
	ctl("trim", pid)

	(record,) = json.loads(ctl("stat", pid, "--json").stdout)["records"]
	lines = ctl("stat", pid, "--records").stdout.splitlines()

	assert record["reason"] == "pressure"
	assert record["pressure"] == {"level": ["none", "warn", "critical"][level], "sources": words, "used_bytes": 910 * MB,
	                              "limit_bytes": 1000 * MB, "used_pct": pytest.approx(91)}
	assert any(re.match(r"CLEANUP .* PRESSURE$", line) for line in lines)
	assert any(re.search(rf" pressure .* {re.escape(text)}$", line) for line in lines)


def test_other_cleanups_show_no_pressure(fake, ctl):
	pid = fake(freed_mb=10)
	ctl("trim", pid)

	assert json.loads(ctl("stat", pid, "--json").stdout)["records"][0]["pressure"] is None
	assert "PRESSURE" not in ctl("stat", pid, "--records").stdout


def test_a_source_or_level_that_nobody_knows_is_passed_over(fake, ctl):
	pid = fake(freed_mb=10, pressure_sources=0xffffffc1, pressure_level=1 << 40)
	ctl("trim", pid)

	pressure = json.loads(ctl("stat", pid, "--json").stdout)["records"][0]["pressure"]
	assert pressure == {"level": "?", "sources": ["limit"], "used_bytes": None, "limit_bytes": None, "used_pct": None}
	assert ctl("stat", pid, "--records").stdout.rstrip().endswith(" ?, limit")


# ---- reports of MT_RSS_LIMIT_MB ----

def test_oom_shows_limit_reports_too(fake, ctl):
	pid = fake(limit_reports=[LIMIT_REPORT])
	text = ctl("stat", pid, "--oom").stdout

	assert re.match(r"limit report 1, \d\d:\d\d:\d\d\.\d+: MT_RSS_LIMIT_MB, 2048\.0 MB, was reached with 7 threads; ", text)
	for label, figure in (("resident", "2050.0"), ("swapped", "5.0"), ("heap live", "1500.0"), ("heap pinned", "99.0"),
	                      ("other", "280.0"), ("files", "100.0"), ("shared", "50.0")):
		assert re.search(rf"^  {label} +{re.escape(figure)} MB +\S", text, re.MULTILINE), label
	assert "page-locked" not in text and text.endswith("  -> live memory: mtctl diagnose says whose\n")
	seen = json.loads(ctl("stat", pid, "--oom", "--json").stdout)
	assert seen["limit_reports"] == [LIMIT_REPORT | {"gpu_pinned_bytes": 0}] and seen["limit_reports_count"] == 1 and seen["ooms"] == []
	assert "MT_RSS_LIMIT_MB was reached 1 time: `mtctl stat PID --oom`" in ctl("stat", pid, "--all").stdout
	assert f"odd        MT_RSS_LIMIT_MB was reached 1 time: `mtctl stat {pid} --oom` has the reports\n" in ctl("stat", pid).stdout


def test_the_last_four_limit_reports_come_oldest_first(fake, ctl):
	pid = fake(limit_reports=[dict(LIMIT_REPORT, number=number) for number in (5, 2, 3, 4)])

	assert re.findall(r"^limit report (\d+),", ctl("stat", pid, "--oom").stdout, re.MULTILINE) == ["2", "3", "4", "5"]
	assert [one["number"] for one in json.loads(ctl("stat", pid, "--json").stdout)["limit_reports"]] == [2, 3, 4, 5]


def test_hostile_text_of_limit_reports_and_limits_reaches_no_terminal(fake, ctl):
	pid = fake(text="\x1b[31m\x07\n\xff", limit_reports=[LIMIT_REPORT], **{name: PRESSED[name] for name in ("values", "settings")})

	for words in (["stat"], ["stat", "--oom"], ["stat", "--json"], ["stat", "--oom", "--json"], ["doctor"]):
		got = ctl(words[0], pid, *words[1:])
		assert got.returncode in (0, 1)
		assert not re.search("[^\x20-\x7e\n]", got.stdout + got.stderr)


# ---- doctor ----

def test_doctor_takes_the_figures_that_the_process_publishes(fake, ctl):
	got = ctl("doctor", fake(**PRESSED)).stdout

	assert f"warn  memory: 1764.0 MB of 2000.0 MB used, 88.2 % ({SOURCE})\n" in got, "85 is its threshold"
	assert "ok    pressure: warn at 85 %, critical at 90 % of the limit, over again 5 points lower\n" in got
	assert got.count("memory: ") == 1
	calm = ctl("doctor", fake(**dict(PRESSED, settings=settings(warn_pct=89)))).stdout
	assert "ok    memory: 1764.0 MB of 2000.0 MB" in calm


def test_doctor_names_settings_that_contradict_each_other(fake, ctl):
	got = ctl("doctor", fake(settings=settings(warn_pct=95, crit_pct=90))).stdout

	assert "warn  pressure: warn at 95 %, critical at 90 %" in got and "MT_WARN_PCT below MT_CRIT_PCT" in got


def test_doctor_says_that_nothing_is_looked_at(fake, ctl):
	got = ctl("doctor", fake(settings=settings(pressure=0))).stdout

	assert "note  pressure: not looked at (MT_PRESSURE=0)" in got and re.search(r"^(ok|warn) +memory: ", got, re.MULTILINE)


def test_doctor_looks_at_the_limit_of_the_process_itself(fake, ctl):
	got = ctl("doctor", fake(limit_reports=[LIMIT_REPORT], settings=settings(rss_limit_mb=320))).stdout

	assert "warn  MT_RSS_LIMIT_MB was reached 1 time\n" in got or "warn  MT_RSS_LIMIT_MB: 300.0 MB of 320.0 MB, 93.8 %" in got
	far = ctl("doctor", fake(settings=settings(rss_limit_mb=3000))).stdout
	assert "ok    MT_RSS_LIMIT_MB: 300.0 MB of 3000.0 MB, 10.0 %" in far


@pytest.mark.parametrize("name", ["job", "a-name-for-which-there-is-no-room-in-the-table-of-settings-which-has-72-bytes"])
def test_doctor_goes_by_the_group_that_the_process_was_given(fake, ctl, plain, tmp_path, mt_dir, name):
	group = mt_dir / name
	group.mkdir()
	for name, text in (("current", 500 * MB), ("max", 1000 * MB), ("high", "max"), ("stat", f"inactive_file {100 * MB}")):
		(group / f"memory.{name}").write_text(f"{text}\n")

	got = ctl("doctor", fake(settings=settings(cgroup=str(group)[:71]), environment=dict(plain, MT_CGROUP=str(group)))).stdout
	assert f"ok    memory: 400.0 MB of 1000.0 MB used, 40.0 % ({group}/memory.max)" in got
	assert f"ok    MT_CGROUP: {group} and the groups above it are gone by" in got
	assert "warn  MT_CGROUP: /tmp is none" in ctl("doctor", fake(settings=settings(cgroup="/tmp"))).stdout
	from_here = ctl("doctor", MT_CGROUP=str(group)).stdout
	assert f"40.0 % ({group}/memory.max)" in from_here
	assert "warn  MT_CGROUP: /no/such is none" in ctl("doctor", MT_CGROUP="/no/such").stdout


@pytest.mark.parametrize("path, words", [
	("/dev/null", "note  MEMORY_PRESSURE_WATCH=/dev/null"),
	("/proc/self/statm", "ok    MEMORY_PRESSURE_WATCH: /proc/self/statm is watched"),
	("/dev/zero", "note  MEMORY_PRESSURE_WATCH: /dev/zero is no file of pressure stall, and not read"),
	("/no/such", "warn  MEMORY_PRESSURE_WATCH: /no/such cannot be read"),
	("here", "warn  MEMORY_PRESSURE_WATCH: here cannot be read")])
def test_doctor_looks_at_systemds_watch(fake, ctl, plain, path, words):
	pid = fake(environment=dict(plain, MEMORY_PRESSURE_WATCH=path))

	assert words in ctl("doctor", pid).stdout
	assert words in ctl("doctor", MEMORY_PRESSURE_WATCH=path).stdout
	assert "MEMORY_PRESSURE_WATCH" not in ctl("doctor", fake()).stdout


def test_doctor_tells_of_stalls_and_swap(ctl):
	got = ctl("doctor").stdout

	assert "pressure stall information: " in got and re.search(r"^ok    swap: ", got, re.MULTILINE)


def test_check_goes_by_the_limit_that_the_shim_goes_by(ctl, spawn, env, awake):
	settings = env(LIMIT_MB=300, MIN_MB=0)
	process = spawn([sys.executable, "-c", "kept = bytearray(60 << 20)\nprint(flush=True)\ninput()"], settings)
	process.stdout.readline()
	awake(process.pid, settings)
	seen = json.loads(ctl("check", process.pid, "--json").stdout)

	assert (seen["limit_bytes"], seen["source"]) == (300 * MB, "MT_LIMIT_MB")
	assert "of 300.0 MB (MT_LIMIT_MB)" in ctl("check", process.pid).stdout


def test_check_says_of_a_process_of_another_user_that_its_limit_is_not_known(mtctl, public, bare, spawn):
	if os.geteuid() != 0:
		pytest.skip("needs root to become nobody")
	process = spawn(["/bin/sleep", "60"], dict(bare, MT_LIMIT_MB="20"))
	got = subprocess.run([public(mtctl), "check", str(process.pid)], env=bare, user=65534, group=65534, extra_groups=[],
	                     capture_output=True, text=True, check=False)

	assert got.returncode == 0 and "MT_LIMIT_MB" not in got.stdout
	assert "its MT_LIMIT_MB and MT_CGROUP may not be read; its cgroup and the machine count" in got.stderr
