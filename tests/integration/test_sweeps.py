"""mtctl removes the files of processes that are gone. It cannot be made to remove anything else: not by names, not by links, not in
a folder that is not its user's, not those of another namespace's processes."""
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

import fake_shim
from mtctl_helpers import ctl, fake, plain  # noqa: F401 (fixtures)
from people import home_of, needs_root, person, stage  # noqa: F401 (fixtures)

PIDNS = os.stat("/proc/self/ns/pid").st_ino
GONE = f"4194305-1-{PIDNS}"  # above the largest pid that there can be


def test_only_a_name_that_the_shim_would_write_is_swept(ctl, mt_dir):
	names = [f"{GONE}.stats\n", f"\n{GONE}.stats", f"{GONE}.stats\x1b[2J", f"0{GONE}.stats", f"+{GONE}.stats", f" {GONE}.stats",
	         f"{GONE}.Stats", f"{GONE}.stats.gz", f"{GONE}.", f"{GONE}", f"-{GONE}.stats", f"4194305--1-{PIDNS}.stats",
	         f"4194305-1-{PIDNS}-1.stats", f"0-1-{PIDNS}.stats", f"4294967297-1-{PIDNS}.stats", f"4194305-1-{PIDNS + 2**64}.stats",
	         f"4194305-99999999999999999999-{PIDNS}.stats", f"4194305-1-{PIDNS + 1}.stats", "4194305-1-0.stats", f"..-1-{PIDNS}.stats",
	         f"{GONE}.control\udcff", ".stats", "..stats", "notes"]
	swept = [f"{GONE}.{kind}" for kind in ("stats", "control", "heap", "blocks", "lines", "fresh")]
	for name in [*names, *swept]:
		(mt_dir / name).write_bytes(b"x")

	assert ctl("ps").returncode == 0
	assert sorted(file.name for file in mt_dir.iterdir()) == sorted(names)


def test_of_a_link_the_link_alone_goes_and_a_folder_stays(ctl, mt_dir):
	precious, inside = mt_dir / "precious", mt_dir / "folder"
	precious.write_text("precious")
	inside.mkdir()
	(inside / f"{GONE}.control").write_text("precious")
	(mt_dir / f"{GONE}.stats").symlink_to(precious)
	(mt_dir / f"{GONE}.heap").symlink_to(inside)
	os.link(precious, mt_dir / f"{GONE}.blocks")
	(mt_dir / f"{GONE}.control").mkdir()

	assert ctl("ps").returncode == 0
	assert sorted(file.name for file in mt_dir.iterdir()) == [f"{GONE}.control", "folder", "precious"]
	assert precious.read_text() == "precious" and (inside / f"{GONE}.control").exists()


def led_by_link(place, other):
	place.rename(place.with_name("real"))
	place.symlink_to(place.with_name("real"))


def given_away(place, other):
	os.chown(place, other.uid, other.uid)


def open_to_all(place, other):
	place.chmod(0o777)


def open_to_a_group(place, other):
	place.chmod(0o770)


@needs_root
@pytest.mark.parametrize("spoil", [led_by_link, given_away, open_to_all, open_to_a_group], ids=lambda spoil: spoil.__name__)
def test_a_folder_that_is_not_ones_own_alone_is_not_swept(person, home_of, ctl, spoil):
	root, other = person(uid=0), person(2)
	home = home_of(root)
	(home / f"{GONE}.stats").write_bytes(b"x")
	spoil(home, other)

	assert ctl("ps", MT_DIR=str(home)).returncode == 0
	assert [file.name for file in home.iterdir()] == [f"{GONE}.stats"]


@needs_root
def test_another_user_sweeps_nothing(person, home_of, wait_for):
	owner, other = person(1), person(2)
	puppet = owner.puppet(wait_for)
	puppet.send_signal(signal.SIGSTOP)  # it sweeps its own folder when it makes a file there
	(owner.folder / f"{GONE}.stats").write_bytes(b"x")
	before = sorted(owner.folder.iterdir())

	for words in (["ps"], ["top", "--once"], ["export"]):
		other.ctl(*words, MT_DIR=owner.folder)
	assert sorted(owner.folder.iterdir()) == before and puppet.poll() is None


# ---- containers that share the folder ----

def inside(namespaces, *words, **settings):
	"""A command in namespaces of its own; skips where there are none to be had."""
	got = subprocess.run(["unshare", *namespaces, *map(str, words)], env=settings, capture_output=True, text=True, timeout=60)
	if got.returncode != 0 and "unshare" in got.stderr:
		pytest.skip(f"unshare {' '.join(namespaces)}: {got.stderr.strip()}")
	return got


@needs_root
@pytest.mark.parametrize("namespaces", [["--pid", "--fork", "--mount-proc"], ["--pid", "--fork"], ["--user", "--map-root-user"],
                                        ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"],
                                        ["--time", "--boottime=86400", "--fork"]], ids=" ".join)
def test_in_other_namespaces_nothing_of_the_living_is_swept(fake, mtctl, plain, mt_dir, namespaces):
	"""There the processes have other numbers, or none; /proc may still be the outer one; in another time namespace they began at another
	time."""
	pid = fake()
	before = sorted(mt_dir.iterdir())

	for words in (["ps"], ["top", "--once"], ["export"], ["stat", pid]):
		inside(namespaces, mtctl, *words, **plain)
	assert sorted(mt_dir.iterdir()) == before


SWEEP_INSIDE = """
import os, pathlib, subprocess, sys
mtctl, home = sys.argv[1:]
own = os.stat("/proc/self/ns/pid").st_ino
dead, outer = pathlib.Path(home, f"4194305-1-{own}.stats"), sys.stdin.read().split()
dead.write_bytes(b"x")
subprocess.run([mtctl, "ps"], check=True, capture_output=True)
print(dead.exists(), sorted(os.listdir(home)) == sorted(outer))
"""


@needs_root
def test_two_containers_with_one_folder_sweep_their_own_dead_alone(fake, mtctl, plain, mt_dir):
	"""Of the outer one there are a living process and one that is gone, of which the inner one cannot know."""
	fake()
	(mt_dir / f"{GONE}.stats").write_bytes(b"x")
	names = sorted(file.name for file in mt_dir.iterdir())

	got = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "/usr/bin/python3", "-c", SWEEP_INSIDE, mtctl, mt_dir], env=plain,
	                     input=" ".join(names), capture_output=True, text=True, timeout=60)
	if "unshare" in got.stderr:
		pytest.skip(got.stderr)
	assert (got.returncode, got.stdout) == (0, "False True\n"), got.stderr


@needs_root
def test_a_user_who_is_root_in_a_namespace_of_his_own_takes_and_sweeps_nothing_of_roots(person, stage, home_of):
	"""There he is 0, and so is the folder's name; to the kernel he is who he was."""
	owner, other = person(uid=0), person(2)
	home = home_of(owner)
	(home / f"{GONE}.stats").write_bytes(b"x")
	words = ["unshare", "--user", "--map-root-user"]
	if other.run(*words, "/bin/true").returncode != 0:
		pytest.skip("no user namespaces here")

	for one in (["ps"], ["top", "--once"]):
		other.run(*words, stage.mtctl, *one, MT_DIR=home)
	# The preload behind unshare, which insists on one thread.
	ran = other.run(*words, "env", *[f"{name}={value}" for name, value in other.shimmed(DIR=home).items()], stage.puppet)
	assert [file.name for file in home.iterdir()] == [f"{GONE}.stats"]
	assert ran.returncode == 0 and len(ran.stderr.splitlines()) <= 1


@needs_root
def test_a_process_in_another_time_namespace_keeps_its_files(mtctl, plain, mt_dir, tmp_path, spawn):
	"""It has another start for itself than for who looks from outside."""
	library = tmp_path / "libmtshim.so"
	library.write_bytes(bytes(8192))
	process = spawn(["unshare", "--time", "--boottime=86400", "--fork", "/usr/bin/python3", fake_shim.__file__, library, mt_dir], plain)
	line = process.stdout.readline()
	if line != "ready\n":
		pytest.skip("no time namespaces here")
	before = sorted(mt_dir.iterdir())
	assert len(before) == 2

	subprocess.run([mtctl, "ps"], env=plain, check=True, capture_output=True)
	assert sorted(mt_dir.iterdir()) == before


def test_the_dead_are_swept_all_the_same(ctl, mt_dir, spawn, plain, tmp_path):
	"""Else the tests above would show nothing."""
	library = tmp_path / "libmtshim.so"
	library.write_bytes(bytes(8192))
	process = spawn(["/usr/bin/python3", fake_shim.__file__, library, mt_dir, json.dumps({})], plain)
	assert process.stdout.readline() == "ready\n" and len(list(mt_dir.iterdir())) == 2
	process.kill()
	process.wait()
	time.sleep(0.05)

	ctl("ps")
	assert list(pathlib.Path(mt_dir).iterdir()) == []
