"""Programs that have more rights than who starts them never load the shim; and what becomes of the shim's files and lines where a
program gives its rights up, changes them, or its root, after the shim has begun."""
import os
import pathlib
import shutil
import struct

import pytest

from people import everybodys, needs_root, person, stage  # noqa: F401 (fixtures)

pytestmark = needs_root
HOARD = "held = [bytes(3000) for _ in range(20000)]\n"
WAIT = ("def wait(done):\n"
        "    end = time.monotonic() + 15\n"
        "    while not done() and time.monotonic() < end:\n"
        "        time.sleep(0.02)\n")
HAS_FILES = "wait(lambda: len(os.listdir(os.environ['MT_DIR'])) == 2)\n"
HAS_THREAD = "wait(lambda: len(os.listdir('/proc/self/task')) == 2)\n"
CAP_NET_RAW, CAP_VERSION_2_EFFECTIVE = 13, 0x02000001


def make_setuid(program, uid):
	os.chown(program, uid, uid)
	program.chmod(0o4755)


def make_setgid(program, uid):
	os.chown(program, 0, uid)
	program.chmod(0o2755)


def give_capability(program, uid):
	del uid
	program.chmod(0o755)
	os.setxattr(program, "security.capability", struct.pack("<5I", CAP_VERSION_2_EFFECTIVE, 1 << CAP_NET_RAW, 0, 0, 0))


@pytest.mark.parametrize("raise_rights", [make_setuid, make_setgid, give_capability], ids=lambda make: make.__name__)
def test_a_program_with_more_rights_than_its_caller_does_not_load_it(person, stage, raise_rights):
	"""The loader's own rule (AT_SECURE): a path with a slash is not preloaded. No MT_ setting is read, no file is made."""
	owner, other = person(1), person(2)
	program = stage.place / "cat"
	shutil.copyfile("/bin/cat", program)
	program.chmod(0o755)
	assert "libmtshim.so" in owner.run(program, "/proc/self/maps", **owner.shimmed()).stdout, "it would, without more rights"
	shutil.rmtree(owner.folder, ignore_errors=True)
	try:
		raise_rights(program, other.uid)
	except OSError:
		pytest.skip("this file system keeps no capabilities")

	log = stage.place / "log"
	got = owner.run(program, "/proc/self/status", "/proc/self/maps", **owner.shimmed(LOG=log, LOG_LEVEL="debug"))
	if str(other.uid) not in got.stdout.split() and "CapEff:\t0000000000000000" in got.stdout:
		pytest.skip("this file system honours no setuid bit and no capabilities")
	assert (got.returncode, got.stderr) == (0, "") and "libmtshim.so" not in got.stdout
	assert not log.exists() and not owner.folder.exists() and not other.folder.exists()


def test_a_program_that_gives_root_up_goes_on_and_makes_nothing_as_who_it_becomes(person, stage, home_of_root):
	"""A daemon: it begins as root, with a thread of the shim's that has root's files, and becomes somebody. setuid stops all threads for
	a moment, ours with them; what was made as root stays root's, and is not written any more."""
	root, owner = person(uid=0), person(1)
	script = (f"import os, time\n{WAIT}{HOARD}{HAS_FILES}"
	          f"os.setgroups([]); os.setresgid({owner.uid}, {owner.uid}, {owner.uid}); os.setresuid({owner.uid}, {owner.uid}, {owner.uid})\n"
	          "uids = set()\n"
	          "for task in os.listdir('/proc/self/task'):\n"
	          "    uids |= {line.split()[2] for line in open(f'/proc/self/task/{task}/status') if line.startswith('Uid:')}\n"
	          "held = None\n"
	          "os.kill(os.getpid(), 10)\n"
	          f"time.sleep(1)\n{HAS_THREAD}"
	          "print(len(os.listdir('/proc/self/task')), *uids)\n")

	got = root.run("/usr/bin/python3", "-c", script, **root.shimmed(DIR=home_of_root, LOG=stage.place / "log-%p", LOG_LEVEL="info", TICK_MS="10"))

	assert (got.returncode, got.stdout) == (0, f"2 {owner.uid}\n"), got.stderr
	assert not owner.folder.exists()
	(log,) = stage.place.glob("log-*")
	assert (log.stat().st_uid, log.stat().st_mode & 0o777) == (0, 0o600)
	assert {file.stat().st_uid for file in home_of_root.iterdir()} <= {0}
	root.ctl("ps", MT_DIR=home_of_root)
	assert list(home_of_root.iterdir()) == [], "what it could not remove itself is swept"


@pytest.fixture
def home_of_root(stage):
	place = stage.memory / "roots"
	place.mkdir(mode=0o700)
	return place


def test_a_program_that_becomes_another_one_for_a_while(person, home_of_root):
	"""As file servers do. While it is somebody its files are out of its reach, then they are its own again."""
	root, owner = person(uid=0), person(1)
	script = (f"import os, time\n{WAIT}{HOARD}{HAS_FILES}"
	          "for _ in range(20):\n"
	          f"    os.seteuid({owner.uid}); time.sleep(0.02); os.seteuid(0)\n"
	          f"time.sleep(0.5)\n{HAS_FILES}"
	          "print('well', len(os.listdir(os.environ['MT_DIR'])))\n")

	got = root.run("/usr/bin/python3", "-c", script, **root.shimmed(DIR=home_of_root, TICK_MS="10"))

	assert (got.returncode, got.stdout, got.stderr) == (0, "well 2\n", "")
	assert list(home_of_root.iterdir()) == [] and not owner.folder.exists()


AWAKE = ("import ctypes, os, time\n"
         f"{HOARD}"
         "def ours():\n"
         "    return [t for t in os.listdir('/proc/self/task') if open(f'/proc/self/task/{t}/comm').read() == 'mtshim\\n']\n"
         "end = time.monotonic() + 20\n"
         "while not ours() and time.monotonic() < end: time.sleep(0.01)\n")


def test_a_file_server_that_changes_its_ids_for_each_request_keeps_the_thread_it_has(person, stage):
	"""Each change ended the thread and began another: some milliseconds, and one mapping that stayed, of which the kernel
	gives 65,530. In the default folder, which goes by the user: there was one of each user that it had been, with files of a
	process that is root's."""
	root, owner = person(uid=0), person(1)
	script = (f"{AWAKE}"
	          "was, maps = ours(), len(open('/proc/self/maps').readlines())\n"
	          "for _ in range(300):\n"
	          f"    os.seteuid({owner.uid}); os.seteuid(0)\n"
	          "print(was == ours(), len(open('/proc/self/maps').readlines()) - maps < 50)\n")

	got = root.run("/usr/bin/python3", "-c", script, **root.shimmed(TICK_MS="10"))

	assert (got.returncode, got.stdout, got.stderr) == (0, "True True\n", "")
	assert not owner.folder.exists()


def test_a_program_that_kept_capabilities_for_itself_changes_its_ids_without_our_thread(person):
	"""PR_SET_KEEPCAPS is a thread's own: ours has lost what the program has, and libc ends a process whose threads fare differently."""
	root = person(uid=0)
	script = (f"{AWAKE}"
	          "libc = ctypes.CDLL(None, use_errno=True)\n"
	          "libc.prctl(8, 1, 0, 0, 0)\n"
	          "os.setresuid(4321, 4321, 4321)\n"
	          "caps = (ctypes.c_uint32 * 6)(0xc0, 0xc0, 0, 0, 0, 0)\n"
	          "print(libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), caps))\n"
	          "os.setresuid(0, 0, 0)\n"
	          "while not ours() and time.monotonic() < end: time.sleep(0.01)\n"
	          "print(os.getresuid(), len(ours()))\n")

	got = root.run("/usr/bin/python3", "-c", script, **root.shimmed(TICK_MS="10"))

	assert (got.returncode, got.stdout) == (0, "0\n(0, 0, 0) 1\n"), got.stderr


def test_a_log_after_chroot_is_made_in_the_new_root_and_for_its_user_alone(person, stage, everybodys):
	"""MT_LOG is a name, looked up at each line, as the program's own files are."""
	root = person(uid=0)
	jail = stage.place / "jail"
	(jail / "logs").mkdir(parents=True)
	script = (f"import os, time\n{WAIT}{HOARD}"
	          f"os.chroot({str(jail)!r}); os.chdir('/')\n"
	          "held = None\nos.kill(os.getpid(), 10)\n"
	          "wait(lambda: os.path.exists('/logs/log') and 'reason=signal' in open('/logs/log').read())\nprint('well')\n")

	got = root.run("/usr/bin/python3", "-c", script, **root.shimmed(LOG="/logs/log", PROFILE="1", DIR=everybodys / "roots", TICK_MS="10"))

	assert (got.returncode, got.stdout) == (0, "well\n")
	assert "reason=signal" in (jail / "logs" / "log").read_text()
	assert (jail / "logs" / "log").stat().st_mode & 0o777 == 0o600


def test_without_capabilities_root_is_as_careful(person, stage, home_of_root):
	"""Root in most containers: some capabilities are missing, and files of others are not to be opened."""
	root = person(uid=0)
	words = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]

	got = root.run(*words, "/usr/bin/python3", "-c", f"{HOARD}print('well')", **root.shimmed(DIR=home_of_root))
	assert (got.returncode, got.stdout, got.stderr) == (0, "well\n", "")
	assert pathlib.Path(home_of_root).exists() and list(home_of_root.iterdir()) == []


def test_a_users_program_at_the_lowest_priority_has_its_thread(person, stage, wait_for):
	"""SCHED_IDLE: who may not be nicer may not leave it, and a thread that asks for the usual policy is refused."""
	owner = person(1)
	process = stage.spawn(owner.words(["chrt", "-i", "0", "nice", "-n", "19", stage.puppet], **owner.shimmed()), stage.bare)
	process.stdin.write("alloc 2000 1000 2000\n")

	wait_for(lambda: list(owner.folder.glob(f"{process.pid}-*.stats")), 30, "its files")
