"""scripts/check-distros: what it adds up, and what it says where it cannot work. The roots themselves take an hour."""
import importlib.machinery
import importlib.util
import os
import subprocess

import pytest

from places import ROOT

SCRIPT = ROOT / "scripts/check-distros"
OUTPUT = """== unit
skipped, and why:
   12  no libmimalloc.so is installed: tests/heap/test_detect.py (10), tests/heap/test_heap.py (2)
    1  Linux: 6.18 has no tool: tests/sys/test_rss.py (1)

unit            10 passed    0 failed     1.0 s
10 passed, 0 failed
== integration

skipped, and why:
    3  no libmimalloc.so is installed: tests/purge/test_rounds.py (3)

integration     20 passed    1 failed     2.0 s
20 passed, 1 failed
"""


@pytest.fixture(scope="module")
def script():
	loader = importlib.machinery.SourceFileLoader("check_distros", str(SCRIPT))
	module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_distros", loader))
	loader.exec_module(module)
	return module


def test_the_line_of_a_root_has_the_sums_and_the_reasons(script):
	assert script.summarize("debian-13", OUTPUT, 2) == (
		"debian-13: 30 passed, 1 failed, 16 skipped (no libmimalloc.so is installed: 15, Linux: 6.18 has no tool: 1)", False)


def test_a_run_that_ends_without_its_sum_has_failed(script):
	assert script.summarize("debian-13", "== unit\nunit 3 passed\nkilled\n", 1) == ("debian-13: 0 passed, 1 failed, 0 skipped", False)
	assert script.summarize("debian-12", "5 passed, 0 failed\n", 2) == ("debian-12: 5 passed, 1 failed, 0 skipped", False)
	assert script.summarize("debian-12", "5 passed, 0 failed\n", 1) == ("debian-12: 5 passed, 0 failed, 0 skipped", True)


def test_a_user_who_is_not_root_is_told_so(public, tmp_path):
	words = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []

	done = subprocess.run([*words, public(SCRIPT), "--folder", tmp_path / "roots"], capture_output=True, text=True)

	assert (done.returncode, done.stdout) == (2, "") and "check-distros: needs root" in done.stderr


def test_a_release_or_ring_that_there_is_not_is_refused():
	for words, said in (["--release", "11"], "11 is none of 12, 13, testing"), (["--rings", "unit,all"], "all is none of unit"):
		done = subprocess.run([SCRIPT, *words], capture_output=True, text=True)
		assert done.returncode == 2 and said in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_run_that_is_told_to_end_takes_its_commands_with_it(tmp_path, script, spawn, wait_for):
	if script.what_is_missing():
		pytest.skip(script.what_is_missing())
	word = f"60.{os.getpid()}"
	(tmp_path / "mmdebstrap").write_text(f"#!/bin/sh\nsleep {word} &\nwait\n")
	(tmp_path / "mmdebstrap").chmod(0o755)
	program = spawn([SCRIPT, "--release", "13", "--folder", tmp_path / "roots"],
	                dict(os.environ, PATH=f"{tmp_path}:{os.environ['PATH']}"))

	def is_there():
		return subprocess.run(["pgrep", "-f", f"^sleep {word}$"], stdout=subprocess.DEVNULL).returncode == 0
	wait_for(is_there)

	program.terminate()

	assert program.wait(10) == 143
	wait_for(lambda: not is_there())


PIP = """:env:.default-timeout='180'
:env:.find-links='/opt/wheels https://example.org/links'
global.cert='/here.pem'
global.default-timeout='5'
global.index-url='https://user:word@example.org/simple'
install.find-links='/opt/more ~/wheels file:///opt'
"""


def test_a_root_gets_the_settings_of_pip_without_folders_that_it_does_not_have(script):
	settings = script.pip_settings(PIP)
	settings["global"]["cert"] = "/etc/pip-cert.pem"

	assert script.pip_file(settings) == ("[global]\ncert = /etc/pip-cert.pem\ndefault-timeout = 180\nfind-links = https://example.org/links\n"
	                                     "index-url = https://user:word@example.org/simple\n[install]\n")


def test_a_root_gets_the_certificates_with_which_pip_works_here(script, tmp_path, monkeypatch):
	monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
	own, system = tmp_path / "own.pem", tmp_path / "system.pem"
	for file in (own, system):
		file.touch()

	assert script.certificates({}, str(system)) == {"cert": str(system)}
	assert script.certificates({"global": {"cert": str(own), "client-cert": "/nowhere.pem"}}, str(system)) == {"cert": str(own)}
	assert script.certificates({}, "/nowhere.pem") == {}
