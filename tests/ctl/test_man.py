"""The man pages: made from mtctl's own help and tables, and without a fault for those who check them."""
import json
import re
import subprocess

import pytest

from mtctl_helpers import ROOT
from mtctl_helpers import ctl, plain  # noqa: F401 (fixtures)

NAMES = ("mtctl.1", "mtshim.7")
# That the other of the two pages is not installed here is no fault of theirs.
NOT_INSTALLED = re.compile(r"STYLE: referenced manual not found|outdated mandoc.db")

pytestmark = pytest.mark.xdist_group("man")  # one worker makes the pages


def generate(mtctl, name):
	return subprocess.run([ROOT / "scripts/generate/man", mtctl, ROOT / f"docs/man/{name}.in"], capture_output=True, text=True)


@pytest.fixture(scope="module")
def pages(mtctl, tmp_path_factory):
	"""name -> the file, made again."""
	folder = tmp_path_factory.mktemp("man")
	for name in NAMES:
		done = generate(mtctl, name)
		assert (done.returncode, done.stderr) == (0, "")
		(folder / name).write_text(done.stdout)
	return {name: folder / name for name in NAMES}


@pytest.fixture(scope="module")
def read(pages):
	"""read(name): the page as a terminal shows it, in one line of words."""
	def show(name):
		command = ["mandoc", "-T", "ascii", "-O", "width=100", pages[name]]
		done = subprocess.run(command, capture_output=True, text=True)
		return " ".join(re.sub(r".\x08", "", done.stdout).split())
	return show


@pytest.mark.parametrize("name", NAMES)
def test_mandoc_and_groff_find_no_fault(pages, name):
	lint = subprocess.run(["mandoc", "-T", "lint", "-W", "style", pages[name]], capture_output=True, text=True)
	assert [line for line in (lint.stdout + lint.stderr).splitlines() if not NOT_INSTALLED.search(line)] == []

	command = ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", pages[name]]
	done = subprocess.run(command, capture_output=True, text=True,
	                      env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANROFFSEQ": ""})
	assert (done.returncode, done.stderr) == (0, "")


def test_every_command_and_every_option_of_its_help_is_there(ctl, read):
	page = read("mtctl.1")

	names = re.findall(r"^  ([a-z][a-z-]*) ", ctl("help").stdout, re.MULTILINE)
	for name in [name for name in names if name != "mtctl"]:
		help = ctl("help", name).stdout
		usage, summary = help.splitlines()[:2]
		assert f"{name}: {summary}" in page and usage.removeprefix("usage: ") in page
		for option in re.findall(r"^  (--[a-z-]+)(?!\S*VALUE)\b", help, re.MULTILINE):
			assert re.search(rf"{option}\b", page), (name, option)


def test_every_setting_is_there_with_its_meaning_and_default(ctl, read):
	page = read("mtshim.7")

	for setting in json.loads(ctl("options", "--json").stdout)["options"]:
		assert f"{setting['environment']} {setting['help']}" in page
	assert "MT_IDLE_MS ms that freed memory must stay unused before it counts as idle. Values: 10 to 600000. " \
	       "Default: 250. Can be changed while the program runs." in page


def test_options_are_items_of_a_list(pages):
	text = pages["mtctl.1"].read_text()

	assert ".It Fl Fl timeout Ns = Ns Ar \"DURATION\"" in text and ".It Fl Fl light\n" in text
	assert text.count(".Bl -tag") == text.count(".Bl -tag -width Ds") and text.count(".Bl") == text.count(".El")


def test_reasons_exit_codes_and_what_changes_come_from_the_documents(read):
	assert "pressure when: a limit of the container, the machine or a GPU comes near." in read("mtshim.7")
	assert "SIGUSR1 asks for a cleanup if the program has no handler" in read("mtshim.7")
	assert "5 the process does not carry the shim" in read("mtctl.1")
	assert "`" not in read("mtctl.1") + read("mtshim.7") and "**" not in read("mtctl.1") + read("mtshim.7")


def test_a_help_that_cannot_be_had_is_an_error(tmp_path):
	"""A page without a command would be wrong, and nobody would see it."""
	broken = tmp_path / "mtctl"
	overview = "mtctl 1 -- x\\n\\n  top  [options]  view\\n"
	broken.write_text(f"#!/bin/sh\n[ $# = 1 ] && printf '{overview}' && exit 0\nexit 2\n")
	broken.chmod(0o755)

	done = generate(broken, "mtctl.1")
	assert done.returncode != 0 and "help top" in done.stderr
