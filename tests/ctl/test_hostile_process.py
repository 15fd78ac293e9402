"""A process of another user that is out for root's mtctl: whatever it puts into its files and says of itself, mtctl ends soon, is
not killed, steers no terminal, and touches no other process."""
import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time

import pytest

import fake_shim
from mtctl_helpers import ctl, fake, plain  # noqa: F401 (fixtures)
from people import fake_of, home_of, needs_root, person, stage  # noqa: F401 (fixtures)

pytestmark = pytest.mark.slow

ASKS = (["stat"], ["stat", "--cached", "--json"], ["check"], ["doctor"], ["advise"], ["sites"], ["snapshot"], ["trim", "--timeout=1"],
        ["diagnose", "--for=1", "--no-trim"])


def harmless(got):
	"""It has ended by itself, and said nothing that a terminal would obey."""
	assert 0 <= got.returncode < 128, got
	assert not re.search("[^\x20-\x7e\n\t]", re.sub("[\u2500-\u25ff\u2026\u00b7]", "", got.stdout + got.stderr)), got
	return True


def ask(ctl, words, pid, limit_s=20):
	begun = time.monotonic()
	assert harmless(ctl(words[0], pid, *words[1:]))
	assert time.monotonic() - begun < limit_s, words


# ---- what it says of itself ----

def trap_fifo(place):
	os.mkfifo(place)


def trap_link_to_a_fifo(place):
	os.mkfifo(place.with_name("elsewhere"))
	place.symlink_to(place.with_name("elsewhere"))


def trap_endless(place):
	place.symlink_to("/dev/zero")


def trap_terminal(place):
	place.symlink_to("/dev/ptmx")


def trap_sparse(place):
	place.touch()
	os.truncate(place, 1 << 40)


def trap_folder(place):
	place.mkdir()


def trap_loop(place):
	place.symlink_to(place)


TRAPS = [trap_fifo, trap_link_to_a_fifo, trap_endless, trap_terminal, trap_sparse, trap_folder, trap_loop]


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.__name__)
def test_a_cgroup_that_is_a_trap_is_not_walked_into(fake, ctl, tmp_path, trap):
	"""mtctl looks where the process says that its group and its limit are: MT_CGROUP, and what its stats file says."""
	group = tmp_path / "group"
	limit = {"pressure_limit_bytes": 2000, "pressure_used_bytes": 1000}
	pid = fake(settings={"cgroup": [str(group), "environment"]}, limit_source=str(group / "memory.max"), values=limit)
	other = fake(settings={"cgroup": [str(group), "environment"]})

	for file in ("memory.current", "memory.max", "memory.stat"):
		group.mkdir()
		for name, text in (("memory.current", "1000"), ("memory.max", "2000"), ("memory.stat", "inactive_file 1\n")):
			(group / name).write_text(text)
		(group / file).unlink()
		trap(group / file)

		for words in (["doctor"], ["stat", "--cached"], ["advise"]):
			ask(ctl, words, pid)
			ask(ctl, words, other)
		shutil.rmtree(group)


def linked_to_proc(group):
	(group / "memory.current").symlink_to("/proc/sys/kernel/pid_max")


def linked_to_a_file(group):
	(group.parent / "another").write_text("4194304\n")
	(group / "memory.current").symlink_to(group.parent / "another")


def folder_linked(group):
	group.rename(group.parent / "elsewhere")
	group.symlink_to(group.parent / "elsewhere")
	(group / "memory.current").write_text("4194304\n")


def of_another_user(group):
	(group / "memory.current").write_text("4194304\n")
	os.chown(group / "memory.current", 31234, 31234)


@needs_root
@pytest.mark.parametrize("lead", [linked_to_proc, linked_to_a_file, folder_linked, of_another_user], ids=lambda lead: lead.__name__)
def test_what_a_process_says_is_its_group_leads_to_no_other_file(fake, ctl, tmp_path, lead):
	"""memory.current may be a link to /proc/kmsg, from which root's doctor would take what it reads."""
	group = tmp_path / "group"
	group.mkdir()
	lead(group)
	pid = fake(limit_source=str(group / "memory.max"), values={"pressure_limit_bytes": 2000 << 20, "pressure_used_bytes": 1000 << 20})

	assert "memory: 1000.0 MB of 2000.0 MB used" in ctl("doctor", pid).stdout


@needs_root
def test_a_file_of_proc_that_a_process_has_mounted_as_its_groups_is_not_read(fake_of, person, home_of, ctl, stage):
	"""In a mount namespace of its own, which a user namespace gives to anybody: there is no link in the path then."""
	owner, group = person(uid=0), stage.memory / "group"
	group.mkdir()
	(group / "memory.current").touch()
	home = home_of(owner)
	owner.prefix = ["unshare", "--mount", "/bin/sh", "-c",
	                f"mount --bind /proc/sys/kernel/pid_max {group}/memory.current && exec \"$@\"", "sh"]
	if owner.run("/bin/true").returncode:
		pytest.skip("no mount namespaces here")
	process = fake_of(owner, home, limit_source=str(group / "memory.max"),
	                  values={"pressure_limit_bytes": 2000 << 20, "pressure_used_bytes": 1000 << 20})

	assert "memory: 1000.0 MB of 2000.0 MB used" in ctl("doctor", process.pid).stdout


# ---- its files ----

def test_files_that_grow_and_shrink_while_they_are_read(fake, ctl, mt_dir):
	pid = fake(cuda="pool", blocks="00" * 4096)
	files = [file for file in mt_dir.iterdir() if file.name.startswith(f"{pid}-")]
	heap = next(file for file in files if file.suffix == ".stats").with_suffix(".heap")
	heap.write_text("heap_v2/1024\n  t*: 1: 1 [0: 0]\n@ 0x1\n  t*: 1: 1 [0: 0]\n")
	heap.chmod(0o600)
	whole = {file: file.read_bytes() for file in [*files, heap]}
	done = threading.Event()

	def shake():
		number = 0
		while not done.is_set():
			for file, data in whole.items():
				number += 1
				try:
					os.truncate(file, (0, 7, len(data) // 2, 1 << 30)[number % 4])
					with open(file, "r+b") as out:
						out.write(data)
				except OSError:
					pass
	shaker = threading.Thread(target=shake)
	shaker.start()
	try:
		for words in [words for words in ASKS * 2 if words[0] not in ("sites", "snapshot", "diagnose")]:  # they wait for an answer
			ask(ctl, words, pid)
		assert harmless(ctl("ps")) and harmless(ctl("export"))
	finally:
		done.set()
		shaker.join()


@pytest.mark.parametrize("suffix", ["stats", "control", "heap", "blocks"])
@pytest.mark.parametrize("kind", ["fifo", "sparse", "folder", "socket", "noise"])
def test_what_lies_in_the_place_of_a_file(fake, ctl, mt_dir, suffix, kind):
	if (kind, suffix) == ("folder", "blocks"):
		pytest.skip("it does not get its answer into place, and mtctl waits its 30 s")
	pid = fake(cuda="pool", values={"prof_state": 2})
	stats = next(file for file in mt_dir.iterdir() if file.name.startswith(f"{pid}-") and file.suffix == ".stats")
	place = stats.with_suffix("." + suffix)
	place.unlink(missing_ok=True)
	if kind == "fifo":
		os.mkfifo(place, 0o600)
	elif kind == "folder":
		place.mkdir(mode=0o700)
	elif kind == "socket":
		os.mknod(place, 0o140600)
	else:
		place.write_bytes(os.urandom(1 << 16) if kind == "noise" else b"")
		place.chmod(0o600)
		if kind == "sparse":
			os.truncate(place, 1 << 40)

	for words in (["stat", "--cached"], ["sites"], ["snapshot"], ["trim", "--timeout=1"]):
		ask(ctl, words, pid)
	assert harmless(ctl("ps")) and harmless(ctl("export"))


LEASE = """
import fcntl, os, signal, sys, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
fds = [os.open(name, os.O_RDWR) for name in sys.argv[1:]]
for fd in fds:
    for _ in range(1000):  # who has it open at the moment keeps it from us
        try: fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK); break
        except BlockingIOError: time.sleep(0.001)
print("held", flush=True)
sys.stdin.read()
"""


@needs_root
def test_a_lease_on_its_files_keeps_nobody_waiting(person, fake_of, home_of, ctl, stage):
	"""Who opens a leased file waits for up to 45 s (fs.lease-break-time), but for who says that he does not block."""
	owner = person(1)
	home = home_of(owner)
	process = fake_of(owner, home)
	files = owner.files(process.pid, home)
	holder = stage.spawn(owner.words([sys.executable, "-c", LEASE, *files]), stage.bare)
	line = holder.stdout.readline()
	if line != "held\n":
		pytest.skip(f"no leases here: {holder.stderr.read()[-200:]}")

	for words in (["stat", "--cached"], ["trim", "--timeout=1"]):
		ask(ctl, words, process.pid, limit_s=10)


# ---- many of them ----

def test_processes_that_do_not_answer_a_trim_are_waited_for_together(fake, ctl, mt_dir):
	"""Without a record, with a lock that somebody holds, with a head that is never whole: once each of them had a time of its own."""
	for _ in range(3):
		fake(recordless=True)
	held = [fake() for _ in range(3)]
	locks = [next(mt_dir.glob(f"{pid}-*.control")).open("rb") for pid in held]
	for lock in locks:
		fcntl.flock(lock, fcntl.LOCK_EX)
	broken, good = fake(broken=True), fake(freed_mb=5)

	begun = time.monotonic()
	got = ctl("trim", "--tree", os.getpid(), "--timeout=3")

	assert time.monotonic() - begun < 15, "seven that have three seconds each"
	assert got.returncode == 0 and f"process {good} " in got.stdout
	assert got.stderr.count("has no cleanup for the request") == 3 and got.stderr.count("another mtctl is still waiting") == 3
	assert f"process {broken} " in got.stderr


def test_more_processes_that_do_not_answer_than_mtctl_may_have_descriptors_keep_it_from_no_other(fake, mtctl, plain, mt_dir):
	"""Each held one until the end: at the usual 1,024 one user kept root's --all-users away from all processes that came later."""
	for _ in range(16):
		fake(deaf=True)
	good = fake(freed_mb=5)

	got = subprocess.run(["/bin/sh", "-c", f"ulimit -n 20; exec {mtctl} trim --tree {os.getpid()} --timeout=1"], env=plain,
	                     capture_output=True, text=True, timeout=120)

	assert got.stderr.count("no answer in time") == 16 and "open files" not in got.stderr
	assert got.returncode == 0 and f"process {good} " in got.stdout
	requests = [fake_shim.CONTROL.unpack(control.read_bytes()[:fake_shim.CONTROL.size])[3] for control in mt_dir.glob("*.control")]
	assert len(requests) == 17 and all(requests)


def test_while_there_are_descriptors_up_to_the_hard_limit_each_request_of_a_trim_of_many_keeps_its_lock(fake, mtctl, plain, mt_dir, spawn,
                                                                                                        wait_for):
	"""Another mtctl would overwrite it before the process has read it."""
	for _ in range(12):
		fake(deaf=True)
	asker = spawn(["/bin/sh", "-c", f"ulimit -Sn 20; exec {mtctl} trim --tree {os.getpid()} --timeout=20"], plain)

	def all_locked():
		for path in mt_dir.glob("*.control"):
			with path.open("rb") as control:
				try:
					fcntl.flock(control, fcntl.LOCK_EX | fcntl.LOCK_NB)
					return False
				except BlockingIOError:
					pass
		return True
	wait_for(all_locked, 10, "all twelve locks")
	asker.kill()


# ---- towards others ----

def control_of(owner, pid, home):
	return next(file for file in owner.files(pid, home) if file.suffix == ".control")


def lead_by_link(control, target):
	control.unlink()
	control.symlink_to(target)


def lead_by_hard_link(control, target):
	control.unlink()
	os.link(target, control)


@needs_root
@pytest.mark.alone  # a cleanup that another test asks everybody for would write to this control file too
@pytest.mark.parametrize("whose", [2, "root"])
@pytest.mark.parametrize("lead", [lead_by_link, lead_by_hard_link], ids=lambda lead: lead.__name__)
def test_a_control_file_that_leads_to_another_process_is_not_written(person, fake_of, home_of, ctl, lead, whose):
	attacker, victim = person(1), person(uid=0) if whose == "root" else person(2)
	homes = home_of(attacker), home_of(victim)
	bad, good = fake_of(attacker, homes[0]), fake_of(victim, homes[1])
	target = control_of(victim, good.pid, homes[1])
	before = target.read_bytes()
	lead(control_of(attacker, bad.pid, homes[0]), target)

	for words in (["trim", "--timeout=1"], ["round"], ["set", "tick_ms=50"], ["reset-peak"], ["snapshot"]):
		got = ctl(words[0], bad.pid, *words[1:])
		assert harmless(got) and got.returncode != 0
	assert target.read_bytes() == before
	assert json.loads(ctl("stat", good.pid, "--json", "--cached").stdout)["requests_count"] == 0


@needs_root
@pytest.mark.alone
def test_an_mt_dir_that_is_another_users_is_refused(person, fake_of, home_of, ctl):
	"""The attacker's process says that its files are in the victim's folder, where the victim has one of its name, as it might be."""
	attacker, victim = person(1), person(2)
	homes = home_of(attacker), home_of(victim)
	bad = fake_of(attacker, homes[0], {"MT_DIR": homes[1]})
	for file in attacker.files(bad.pid, homes[0]):
		copy = homes[1] / file.name
		copy.write_bytes(file.read_bytes())
		copy.chmod(0o600)
		os.chown(copy, victim.uid, victim.uid)
	before = {file: file.read_bytes() for file in homes[1].iterdir()}

	for words in (["stat", "--cached"], ["trim", "--timeout=1"], ["snapshot"]):
		got = ctl(words[0], bad.pid, *words[1:])
		assert harmless(got) and got.returncode == 2 and "refused" in got.stderr
	assert {file: file.read_bytes() for file in homes[1].iterdir()} == before


@needs_root
def test_a_stats_file_that_speaks_of_another_process_is_not_believed(person, fake_of, home_of, ctl):
	attacker, victim = person(1), person(2)
	good = fake_of(victim, home_of(victim))
	bad = fake_of(attacker, home_of(attacker), other_pid=good.pid)

	got = ctl("trim", bad.pid, "--timeout=1")
	assert got.returncode == 2 and "belongs to another process" in got.stderr


AGAIN = """
import json, os, pathlib, subprocess, sys, time
mtctl, fake, library, home = sys.argv[1:]
def start(pid=None):
    if pid:
        pathlib.Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
    process = subprocess.Popen(["/usr/bin/python3", fake, library, home, json.dumps({"values": {"rss_bytes": 77 if pid else 55}})],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\\n"
    return process
first = start()
old = sorted(os.listdir(home))
first.kill(); first.wait(); time.sleep(0.05)
second = start(first.pid)
asked = subprocess.run([mtctl, "trim", str(second.pid)], capture_output=True, text=True)
seen = json.loads(subprocess.run([mtctl, "stat", str(second.pid), "--json", "--cached"], capture_output=True, text=True).stdout)
subprocess.run([mtctl, "ps"], capture_output=True)
print(json.dumps({"same": second.pid == first.pid, "asked": asked.returncode, "rss": seen["rss_bytes"],
                  "left": [name for name in old if name in os.listdir(home)], "now": len(os.listdir(home))}))
second.kill()
"""


@needs_root
def test_a_process_that_has_the_number_of_one_that_is_gone_is_another_one(person, stage, fake_of, home_of, bare):
	"""In a pid namespace, where the next number can be said. The files of the first are neither read nor rung, and are swept."""
	root = person(uid=0)
	home = home_of(root)
	got = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "/usr/bin/python3", "-c", AGAIN, stage.mtctl,
	                      stage.place / "tests/lib/fake_shim.py", stage.shim, home], env=dict(bare, MT_DIR=str(home)),
	                     capture_output=True, text=True, timeout=60)
	if "Operation not permitted" in got.stderr or "ns_last_pid" in got.stderr:
		pytest.skip("no pid namespaces here, or their numbers cannot be said")

	assert got.returncode == 0, got.stderr
	assert json.loads(got.stdout) == {"same": True, "asked": 0, "rss": 77, "left": [], "now": 2}


# ---- what it is called ----

def test_names_of_files_and_programs_steer_no_terminal(spawn, ctl, plain, mt_dir, tmp_path):
	"""The name, the command line, MT_DIR and the folder of the library, each with what a terminal obeys."""
	evil = "\x1b]0;owned\x07\x1b[2J\u009b31m\r\n"
	folder = tmp_path / evil
	folder.mkdir()
	(folder / "libmtshim.so").write_bytes(bytes(8192))
	program = folder / f"py{evil}"
	program.symlink_to("/usr/bin/python3")
	fake = fake_shim.__file__
	process = spawn([program, fake, folder / "libmtshim.so", mt_dir, json.dumps({"text": evil.encode().decode("latin-1")}), evil],
	                dict(plain, MT_DIR=str(folder / "nowhere"), MT_CGROUP=evil, LD_AUDIT="", PYTORCH_CUDA_ALLOC_CONF=evil))
	assert process.stdout.readline() == "ready\n", process.stderr.read()

	for words in ASKS:
		ask(ctl, words, process.pid)
	for words in (["ps"], ["ps", "--tree", process.pid], ["ps", "--json"], ["export"], ["top", "--once"]):
		assert harmless(ctl(*words))


def test_a_family_as_deep_as_somebody_likes_is_read(spawn, env, compile_c, mtctl, plain):
	"""Each level once took a part of mtctl's stack, which is made small here: 200 processes do then what 25,000 do to a usual one."""
	chain = spawn([compile_c("people_chain.c"), 200], env(MIN_MB=1000))
	assert chain.stdout.readline() == "ready\n", chain.stderr.read()

	for words in (["ps", "--tree", chain.pid], ["trim", "--tree", chain.pid], ["top", "--once"]):
		got = subprocess.run(["/bin/sh", "-c", 'ulimit -s 80; exec "$@"', "sh", mtctl, *map(str, words)], env=plain, capture_output=True,
		                     text=True, timeout=60, errors="replace")
		assert harmless(got), words
		assert words[:2] != ["ps", "--tree"] or got.stdout.count("chain") >= 200
