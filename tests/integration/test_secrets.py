"""What the shim and mtctl write down and show tells no more than `ps` does: no value of the environment that is not a setting of ours,
and command lines only where ps would show them."""
import json
import os
import pathlib
import socket

import pytest


SECRET, ARGUMENT = "s3cr3t-of-the-environment", "s3cr3t-of-the-command-line"
# What looks like ours, what the shim or doctor reads of others' settings, and what programs keep their secrets in.
VARIABLES = ("DATABASE_PASSWORD", "AWS_SECRET_ACCESS_KEY", "MT_API_TOKEN", "MT_TOKEN", "MTCTL_TOKEN", "NVFLARE_TOKEN", "WANDB_API_KEY",
             "HF_TOKEN", "RANK_SECRET", "PYTHON_TOKEN", "SLURM_JWT", "XLA_TOKEN", "TF_TOKEN", "OMPI_MCA_secret", "LD_SECRET", "MALLOC_TOKEN")
PROGRAM = ("import os, sys, time\nheld = [bytes(3000) for _ in range(20000)]\nprint('ready', flush=True)\n"
           "for line in sys.stdin:\n    held = held[:len(held) // 2]\n    print('ok', flush=True)\n")


@pytest.fixture
def busy(spawn, env, wait_for, mt_dir, tmp_path):
	"""A program with secrets, of which the shim tells as much as it can."""
	settings = dict(env(MIN_MB=0, LOG_LEVEL="debug", LOG=tmp_path / "log", PROFILE=1, PROF="on", TICK_MS=10, MALLOC_CONF="lg_prof_sample:12",
	                    GC_ROUNDS="-1", RSS_LIMIT_MB=20), **dict.fromkeys(VARIABLES, SECRET))
	process = spawn(["/usr/bin/python3", "-c", PROGRAM, ARGUMENT], settings)
	assert process.stdout.readline() == "ready\n", process.stderr.read()
	wait_for(lambda: list(mt_dir.glob(f"{process.pid}-*.stats")))
	process.env = settings
	return process


def test_no_file_of_the_shim_has_a_value_of_the_environment_or_the_command_line(busy, control, mt_dir, tmp_path):
	assert control(busy.env, "sites", busy.pid).returncode == 0  # which writes the heap profile
	control(busy.env, "trim", busy.pid)
	busy.stdin.write("\n")
	busy.stdin.flush()
	assert busy.stdout.readline() == "ok\n"

	found = {file.suffix: file.read_bytes() for file in mt_dir.iterdir() if file.name.startswith(f"{busy.pid}-")}
	found["log"] = (tmp_path / "log").read_bytes()
	assert set(found) == {".stats", ".control", ".heap", "log"}
	for name, data in found.items():
		assert len(data) > 100
		for secret in (SECRET, ARGUMENT):
			assert secret.encode() not in data, name
	assert b"GC_ROUNDS=-1" in found["log"], "of a setting of ours the value is told"


def test_no_command_tells_a_value_of_the_environment(busy, control):
	clean = {name: value for name, value in busy.env.items() if name not in VARIABLES}

	for words in (["stat"], ["stat", "--json"], ["doctor"], ["advise"], ["sites"], ["diagnose", "--for=1", "--no-trim"], ["check"],
	              ["trim", "--json"], ["snapshot"]):
		got = control(clean, words[0], busy.pid, *words[1:], timeout=60)
		assert SECRET not in got.stdout + got.stderr, words
		assert ARGUMENT not in got.stdout + got.stderr, words
	doctor = control(busy.env, "doctor")
	assert SECRET not in doctor.stdout + doctor.stderr and "MT_API_TOKEN" in doctor.stdout, "the name alone"


def test_metrics_have_names_of_programs_and_no_command_lines(busy, control):
	for words in (["export"], ["export", "--format=old"]):
		got = control(busy.env, *words).stdout
		assert f'pid="{busy.pid}"' in got and SECRET not in got and ARGUMENT not in got


def test_command_lines_are_shown_where_ps_shows_them_and_to_nobody_else(busy, control, tmp_path):
	shown = next(one for one in json.loads(control(busy.env, "ps", "--json").stdout)["processes"] if one["pid"] == busy.pid)
	assert ARGUMENT in shown["command"] or len(shown["command"]) >= 150
	assert ARGUMENT in pathlib.Path(f"/proc/{busy.pid}/cmdline").read_text()

	recording = tmp_path / "recording"
	mask = os.umask(0)
	control(busy.env, "record", "-o", recording, "--no-shim", "--", "/bin/sh", "-c", "sleep 0.5", ARGUMENT)
	os.umask(mask)
	assert ARGUMENT in recording.read_text() and recording.stat().st_mode & 0o777 == 0o600
	assert SECRET not in recording.read_text()


def test_lines_of_a_process_whose_stderr_is_a_socket_go_to_nobody(env, spawn, control):
	"""The shim's thread has a table of descriptors of its own: what has the number of stderr there is another file."""
	own, theirs = socket.socketpair()
	settings = env(MIN_MB=0, PROFILE=1, LOG_LEVEL="debug", TICK_MS=10)
	process = spawn(["/usr/bin/python3", "-c", PROGRAM], settings, stderr=theirs)
	assert process.stdout.readline() == "ready\n"
	for _ in range(3):
		assert control(settings, "trim", process.pid).returncode == 0

	own.setblocking(False)
	with pytest.raises(BlockingIOError):
		own.recv(65536)
	for one in (own, theirs):
		one.close()
