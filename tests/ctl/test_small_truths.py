"""What mtctl says in passing, and must be true."""
import os
import re
import shutil
import subprocess

import pytest

from mtctl_helpers import NOT_SHIMMED, PYTHON, USAGE, ctl, fake, plain  # noqa: F401

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

	assert re.search(r"none has run yet, about \d\S* ms is expected; --purge leaves it out", first.stderr), first
	assert re.search(r"the last collection took \d\S* m?s, about \d\S* m?s is expected", second.stderr), second
	assert purge.stderr == "" and "purge cleanup" in purge.stdout and " gc " not in purge.stdout


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
	done = ctl("record", "--tree", "--no-shim", "-o", tmp_path / "f.jsonl", "--", "sleep", "0.2")

	assert "record --tree -o shim.jsonl -- sleep 0.2" in done.stderr, done


def test_compare_refuses_a_tree_against_a_process_and_says_what_it_wrote(ctl, tmp_path):
	one, tree, picture = tmp_path / "one.jsonl", tmp_path / "tree.jsonl", tmp_path / "x.svg"
	ctl("record", "--no-shim", "-o", one, "--", "sleep", "0.2")
	ctl("record", "--no-shim", "--tree", "-o", tree, "--", "sleep", "0.2")

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
