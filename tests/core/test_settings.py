"""Whatever stands in a setting, the program runs as without the shim, and one line says what is taken instead.
The list of settings is `mtctl options --json` itself: a new one is tested by being there."""
import json
import pathlib
import re
import subprocess

import pytest

from mtctl_helpers import ctl, plain  # noqa: F401 (fixtures)

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUBBISH = {
	"rubbish": "rubbish!",
	"huge": "99999999999999999999999999",
	"negative": "-3",
	"empty": "",
	"blank": "   ",
	"fraction": "1.5",
	"suffix": "12kB",
	"escape": "\x1b[31m\x07",
	"long": "9" * 5000,
	"not-utf8": "\udcff\udcfe",
}


def option_names():
	"""From the table itself, so that the tests can be collected before mtctl is built."""
	text = (ROOT / "shim" / "core" / "options.def").read_text()
	table = text[text.index("#define MT_OPTIONS"):text.index("#define MT_ALIASES")]
	return re.findall(r"^\s*X\((\w+),\s*(\w+),", table, re.MULTILINE)


def test_mtctl_lists_every_setting(mtctl, bare):
	done = subprocess.run([mtctl, "options", "--json"], env=bare, capture_output=True, text=True)

	listed = json.loads(done.stdout)
	listed = listed["options"] if isinstance(listed, dict) else listed
	assert {entry["name"].lower().removeprefix("mt_") for entry in listed} >= {name for name, _ in option_names()}


def bad_values():
	"""All bad values for one setting of each kind. The unit test of the parser has each value for each setting, and the test of all
	settings at once has rubbish for each."""
	kinds = {kind: name for name, kind in reversed(option_names())}
	return [(name, kind, what) for kind, name in kinds.items() for what in RUBBISH]


@pytest.mark.parametrize("name, kind, what", bad_values())
def test_a_bad_value_is_one_line_and_no_harm(run, env, tmp_path, name, kind, what):
	value = RUBBISH[what]
	# The lines of a shim whose log is elsewhere, or that is told to log less, are not on stderr.
	where_free_text = kind == "text"

	got = run(["/bin/sh", "-c", "echo $((6 * 7)); exit 3"], env(**{name.upper(): value}), cwd=tmp_path)

	assert (got.returncode, got.stdout) == (3, "42\n")
	lines = [line for line in got.stderr.splitlines() if line]
	assert len(lines) <= 1, got.stderr
	assert "\x1b" not in got.stderr and "\x07" not in got.stderr, "hostile text is not passed on to a terminal"
	assert len(got.stderr) <= 1100
	if lines:
		assert lines[0].startswith("mtshim[") and "MT_" + name.upper() in lines[0]
	elif not where_free_text:
		assert what in ("empty", "blank") or (kind, what) == ("decimal", "fraction"), "nothing was said"


@pytest.mark.parametrize("what", RUBBISH)
def test_a_bad_value_for_all_texts_at_once_is_no_harm(run, env, tmp_path, what):
	"""A text is used as it stands: as a path, a list of names, or options of an allocator."""
	texts = {name.upper(): RUBBISH[what] for name, kind in option_names() if kind == "text"}

	got = run(["/bin/sh", "-c", "echo $((6 * 7)); exit 3"], env(**texts), cwd=tmp_path)

	assert (got.returncode, got.stdout) == (3, "42\n") and len(texts) > 3
	assert "\x1b" not in got.stderr and "\x07" not in got.stderr, "hostile text is not passed on to a terminal"
	assert len(got.stderr.splitlines()) <= len(texts), got.stderr


def candidates():
	"""Values at the edges of each kind, for one setting of it, and every number for the signal."""
	edges = ["", "0", "1", "auto", "on", "1.5", "3.", "1.2345", "007", " 1", "-1", "9" * 40, "x" * 255, "x" * 4096, "timer:0", "timer:5", "none",
	         "RTMIN+3", "RTMIN+99"]
	seen = set()
	for name, kind in option_names():
		if kind not in seen:
			yield name, [*edges, *map(str, range(66))] if kind == "signal" else edges
		seen.add(kind)


@pytest.mark.parametrize("name, values", candidates(), ids=lambda one: one if isinstance(one, str) else "values")
def test_mtctl_refuses_what_the_shim_refuses_and_nothing_else(run, env, bare, mtctl, name, values):
	def refused_by_mtctl(value):
		words = [mtctl, "run", "-q", f"--{name.replace('_', '-')}={value}", "--", "/bin/true"]
		return subprocess.run(words, env=bare, capture_output=True).returncode == 2

	def refused_by_shim(value):
		return f"MT_{name.upper()}=" in run(["/bin/true"], env(**{name.upper(): value})).stderr

	assert [value for value in values if refused_by_mtctl(value)] == [value for value in values if refused_by_shim(value)]


@pytest.mark.parametrize("value", ["0", "1", "on", "off", "yes", "no", "true", "false"])
def test_every_spelling_of_a_switch(run, env, value):
	got = run(["/bin/sh", "-c", "echo ok"], env(PROFILE=value))

	assert (got.stdout, got.stderr) == ("ok\n", "")


def test_an_unknown_name_is_reported_and_doctor_names_the_nearest(run, env, spawn, ctl):
	wrong = env(MT_GC_ROUND="2", MIN_MB=0)
	got = run(["/bin/true"], wrong)
	assert got.returncode == 0 and len(got.stderr.splitlines()) == 1 and "MT_GC_ROUND: no such setting" in got.stderr

	process = spawn(["/bin/cat"], wrong)
	assert "did you mean MT_GC_ROUNDS?" in ctl("doctor", process.pid).stdout


@pytest.mark.parametrize("part", [0, 1])
def test_every_bad_setting_at_once(run, env, part):
	"""In two parts: behind so many lines the others are only counted."""
	names = [name.upper() for name, kind in option_names() if kind != "text" and name != "enable"][part::2]

	got = run(["/bin/sh", "-c", "echo ok"], env(**{name: "rubbish!" for name in names}))

	assert got.stdout == "ok\n"
	assert len(got.stderr.splitlines()) == len(names)
	for name in names:
		assert f"MT_{name}" in got.stderr


def test_an_environment_of_thousands(run, env):
	settings = env(MIN_MB=0)
	settings.update({f"X_{number}": "y" * 50 for number in range(5000)})

	got = run(["/usr/bin/python3", "-c", "import os; print(len([n for n in os.environ if n.startswith('X_')]))"], settings)

	assert (got.returncode, got.stdout, got.stderr) == (0, "5000\n", "")


def test_no_environment_at_all(run, shim, bare):
	got = run(["/usr/bin/env", "-i", f"LD_PRELOAD={shim}", "/bin/sh", "-c", "echo ok"], bare)

	assert (got.returncode, got.stdout, got.stderr) == (0, "ok\n", "")


@pytest.mark.parametrize("conf", ["narenas:2", "no_such_key:1", "narenas", ":::,,,", "abort_conf:true,bad:1",
                                  "dirty_decay_ms:5000,muzzy_decay_ms:5000,background_thread:true",
                                  "prof:true", "x" * 3000, "narenas:99999999999999999"])
@pytest.mark.parametrize("name", ["MT_MALLOC_CONF", "MALLOC_CONF"])
def test_a_bad_conf_never_aborts(run, env, name, conf):
	got = run(["/usr/bin/python3", "-c", "print(sum(range(100)))"], dict(env(ALLOCATOR="jemalloc"), **{name: conf}))

	assert (got.returncode, got.stdout) == (0, "4950\n"), got.stderr
