"""Another user of the machine reads nothing, rings nothing and plants nothing: shown with real ones, each against each, and
against root."""
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess

import pytest

from people import NOBODY, everybodys, needs_root, person, stage  # noqa: F401 (fixtures)

pytestmark = needs_root
# Until the shim's thread is there, which says that it has no files, and some time longer.
WORK = ["/usr/bin/python3", "-c", "import os, time\nheld = [bytes(3000) for _ in range(20000)]\nend = time.monotonic() + 15\n"
        "while len(os.listdir('/proc/self/task')) < 2 and time.monotonic() < end: time.sleep(0.01)\n"
        "time.sleep(0.5)\nprint('well')"]
PAIRS = {"user-user": (1, 2), "nobody-user": ("nobody", 2), "user-root": (1, "root")}


@pytest.fixture(params=PAIRS, ids=PAIRS)
def pair(request, person):
	"""Who tries, and whose it is."""
	special = {"nobody": NOBODY, "root": 0}
	return [person(uid=special[one]) if one in special else person(one) for one in PAIRS[request.param]]


def folder_of(owner, stage):
	"""The default one, but for root, whose default one others use as well: one as it would be."""
	if owner.uid:
		return owner.folder
	place = stage.memory / "roots"
	place.mkdir(mode=0o700)
	return place


# ---- reads nothing ----

def test_the_files_are_for_their_owner_alone_even_without_a_umask(pair, stage, wait_for):
	other, owner = pair
	folder = folder_of(owner, stage)
	mask = os.umask(0)
	try:
		puppet = owner.puppet(wait_for, DIR=folder)
	finally:
		os.umask(mask)

	assert (folder.stat().st_mode & 0o7777, folder.stat().st_uid) == (0o700, owner.uid)
	files = owner.files(puppet.pid, folder)
	assert {file.suffix for file in files} == {".stats", ".control"}
	for file in files:
		assert (file.stat().st_mode & 0o7777, file.stat().st_uid, file.stat().st_nlink) == (0o600, owner.uid, 1)
		for words in (["/bin/cat", file], ["/bin/ls", folder], ["/bin/dd", "if=/dev/zero", f"of={file}", "conv=notrunc", "count=1"],
		              ["/bin/ln", file, stage.place / "tmp"], ["/bin/rm", "-f", file], ["/bin/mv", folder, f"{folder}-away"]):
			got = other.run(*words)
			assert (words, got.stdout, got.returncode != 0) == (words, "", True)
	assert owner.files(puppet.pid, folder) == files


@pytest.mark.alone  # root in other tests asks everybody for cleanups
def test_mtctl_of_another_user_learns_nothing_and_does_nothing(pair, stage, wait_for, control):
	other, owner = pair
	folder = folder_of(owner, stage)
	puppet = owner.puppet(wait_for, DIR=folder)

	for words in (["stat"], ["trim"], ["round"], ["reset-peak"], ["doctor"], ["sites"], ["snapshot"], ["advise"], ["trim", "--tree"]):
		got = other.ctl(*words, puppet.pid, MT_DIR=folder)
		assert (words, got.returncode != 0) == (words, True)
		assert "live" not in got.stdout and "freed" not in got.stdout, got.stdout
	assert other.ctl("set", puppet.pid, "idle_ms=1", MT_DIR=folder).returncode != 0
	assert str(puppet.pid) not in other.ctl("ps", MT_DIR=folder).stdout.split()
	assert f'pid="{puppet.pid}"' not in other.ctl("export", MT_DIR=folder).stdout
	seen = json.loads(control({"MT_DIR": str(folder)}, "stat", puppet.pid, "--json", "--cached").stdout)
	assert (seen["requests_count"], seen["records"]) == (0, [])


# ---- rings nothing ----

@pytest.mark.alone
def test_a_signal_of_another_user_does_not_arrive(pair, stage, wait_for, control):
	other, owner = pair
	folder = folder_of(owner, stage)
	puppet = owner.puppet(wait_for, DIR=folder)

	for number in (signal.SIGUSR1, signal.SIGRTMIN, signal.SIGKILL):
		assert other.run("/bin/kill", f"-{int(number)}", puppet.pid).returncode != 0
	assert puppet.tell("hello") == "hello"
	assert json.loads(control({"MT_DIR": str(folder)}, "stat", puppet.pid, "--json", "--cached").stdout)["records"] == []


def test_memory_and_descriptors_of_the_process_are_closed_to_others_as_ever(pair, stage, wait_for):
	"""The shim makes nobody dumpable, and opens no way in by /proc."""
	other, owner = pair
	puppet = owner.puppet(wait_for, DIR=folder_of(owner, stage))

	for name in ("maps", "environ", "mem", "fd/", "map_files/"):
		assert other.run("/bin/ls" if name.endswith("/") else "/bin/cat", f"/proc/{puppet.pid}/{name}").returncode != 0, name
	tasks = other.run("/bin/sh", "-c", f"ls /proc/{puppet.pid}/task/*/fd").stdout
	assert not [word for word in tasks.split() if word.isdigit()]


# ---- plants nothing ----

def squat_open(place, squatter):
	place.mkdir()
	place.chmod(0o777)
	os.chown(place, squatter, squatter)


def squat_closed(place, squatter):
	place.mkdir(mode=0o700)
	os.chown(place, squatter, squatter)


def squat_file(place, squatter):
	place.write_text("")
	os.chown(place, squatter, squatter)


def squat_fifo(place, squatter):
	os.mkfifo(place, 0o666)
	os.chown(place, squatter, squatter)


def squat_device(place, squatter):
	try:
		os.mknod(place, 0o020666, os.makedev(1, 3))
	except PermissionError:
		pytest.skip("no devices can be made here")


def squat_link(place, squatter):
	"""To a folder of the victim's own, which would do."""
	home = place.with_name(place.name + "-home")
	home.mkdir(mode=0o700)
	os.chown(home, int(place.name.rpartition("-")[2]), -1)
	place.symlink_to(home)
	os.lchown(place, squatter, squatter)


def squat_loop(place, squatter):
	place.symlink_to(place)


SQUATS = [squat_open, squat_closed, squat_file, squat_fifo, squat_device, squat_link, squat_loop]


@pytest.mark.parametrize("squat", SQUATS, ids=lambda squat: squat.__name__)
def test_who_was_there_first_gets_nothing_and_stops_nothing(person, squat):
	"""The name of a user's folder is known, and /dev/shm is everybody's: what another one puts there is not used."""
	owner, squatter = person(1), person(2)
	squat(owner.folder, squatter.uid)
	home = owner.folder.with_name(owner.folder.name + "-home")
	try:
		got = owner.run(*WORK, **owner.shimmed())
		ended = owner.ctl("ps")

		assert (got.returncode, got.stdout) == (0, "well\n"), got.stderr
		assert len(got.stderr.splitlines()) == 1 and str(owner.folder) in got.stderr
		assert ended.returncode >= 0
		for place in (owner.folder, home):
			assert not place.is_dir() or list(place.iterdir()) == []
	finally:
		if home.exists():
			home.rmdir()
		if owner.folder.is_dir() and not owner.folder.is_symlink():
			owner.folder.rmdir()
		else:
			owner.folder.unlink()


def test_a_folder_that_is_led_elsewhere_after_it_was_looked_at(person, stage, compile_c):
	"""Above MT_DIR somebody may rename: at the moment at which the shim makes its first file the name leads to another folder of the
	same user's. The file is made in the folder that was looked at."""
	if platform.machine() != "x86_64":
		pytest.skip("the program that watches for the moment knows the registers of x86-64 alone")
	owner, other = person(1), person(2)
	above, home = stage.memory / "above", stage.memory / "home"
	for place, uid, mode in ((above, other.uid, 0o777), (above / "files", owner.uid, 0o700), (home, owner.uid, 0o700)):
		place.mkdir()
		place.chmod(mode)
		os.chown(place, uid, uid)
	(above / "link").symlink_to(home)
	words = owner.words([stage.puppet], **owner.shimmed(DIR=above / "files"))
	traced = stage.spawn([compile_c("people_trace.c"), above / "files", above / "link", shutil.which(words[0]), *words[1:]], stage.bare)
	traced.stdin.write("alloc 2000 1000 2000\n")
	assert traced.stdout.readline() == "2000\n", traced.stderr.read()
	traced.stdin.write("churn 1000\n")
	traced.stdin.flush()
	assert traced.stdout.readline()
	planted = [file.name for file in home.iterdir()]
	traced.stdin.close()

	assert (planted, (above / "files").is_symlink()) == ([], True), "and the moment has come"
	assert traced.stdout.read().endswith("exchanged\n") and traced.wait(timeout=20) == 0


def test_a_setgid_folder_gives_nothing_to_its_group(person, stage, wait_for):
	owner, other = person(1), person(2)
	above = stage.memory / "shared"
	above.mkdir()
	os.chown(above, 0, other.uid)
	above.chmod(0o3777)

	puppet = owner.puppet(wait_for, DIR=above / "files")

	assert (above / "files").stat().st_mode & 0o777 == 0o700
	for file in owner.files(puppet.pid, above / "files"):
		assert file.stat().st_mode & 0o777 == 0o600
		assert other.run("/bin/cat", file).returncode != 0


# ---- MT_LOG in a folder of everybody's ----

def log_link(place, owner, other, precious):
	place.symlink_to(precious)
	os.lchown(place, other.uid, other.uid)


def log_hard_link(place, owner, other, precious):
	os.link(precious, place)


def log_file(place, owner, other, precious):
	place.write_text("")
	place.chmod(0o666)
	os.chown(place, other.uid, other.uid)


def log_fifo(place, owner, other, precious):
	os.mkfifo(place, 0o666)
	place.chmod(0o666)
	os.chown(place, other.uid, other.uid)


@pytest.mark.parametrize("who", [1, "root"])
@pytest.mark.parametrize("plant", [log_link, log_hard_link, log_file, log_fifo], ids=lambda plant: plant.__name__)
def test_a_log_that_another_user_has_prepared_gets_no_line(person, everybodys, plant, who):
	"""As where fs.protected_symlinks, _hardlinks, _regular and _fifos are off."""
	owner, other = person(uid=0) if who == "root" else person(1), person(2)
	precious, place = everybodys / "precious", everybodys / "log"
	precious.write_text("precious\n")
	precious.chmod(0o600)
	os.chown(precious, owner.uid, owner.uid)
	plant(place, owner, other, precious)
	reader = os.open(place, os.O_RDONLY | os.O_NONBLOCK) if plant is log_fifo else None

	got = owner.run(*WORK, **owner.shimmed(LOG=place, LOG_LEVEL="info", DIR=everybodys / "files"))

	assert (got.returncode, got.stdout) == (0, "well\n")
	assert "cannot be opened for writing" in got.stderr and "jemalloc" in got.stderr
	assert precious.read_text() == "precious\n"
	if plant is log_file:
		assert place.read_text() == ""
	if reader is not None:
		assert os.read(reader, 100) == b""
		os.close(reader)


def test_a_log_of_ones_own_or_of_roots_or_in_a_folder_that_is_not_everybodys_is_written(person, everybodys, stage):
	owner, other = person(1), person(2)
	own, roots, shared = everybodys / "own", everybodys / "roots", stage.place / "group" / "log"
	shared.parent.mkdir()
	for file, uid in ((own, owner.uid), (roots, 0), (shared, other.uid)):
		file.write_text("")
		file.chmod(0o666)
		os.chown(file, uid, uid)

	for file in (own, roots, shared, everybodys / "new"):
		got = owner.run(*WORK, **owner.shimmed(LOG=file, LOG_LEVEL="info"))
		if file is roots and "errno 13" in got.stderr:
			continue  # fs.protected_regular=2 refuses that by itself
		assert (file.name, got.returncode, got.stderr) == (file.name, 0, "")
		assert "jemalloc" in file.read_text()
	assert (everybodys / "new").stat().st_mode & 0o777 == 0o600


# ---- what mtctl is told to write, in a folder of everybody's ----

@pytest.fixture
def recorded(stage, person, wait_for):
	"""Commands of mtctl with -o, which the owner may give; the file is the last word."""
	def make(owner):
		puppet = owner.puppet(wait_for, DIR=folder_of(owner, stage))
		return {"record.jsonl": ["record", "--interval=0.05", "--quiet", "-o"], "now.svg": ["plot", puppet.pid, "-o"]}
	return make


@pytest.mark.parametrize("who", [1, "root"])
@pytest.mark.parametrize("plant", [log_link, log_hard_link, log_file, log_fifo], ids=lambda plant: plant.__name__)
def test_output_goes_into_nothing_that_another_user_has_prepared(person, everybodys, recorded, plant, who):
	owner, other = person(uid=0) if who == "root" else person(1), person(2)
	precious = everybodys / "precious"
	precious.write_text("precious\n")
	os.chown(precious, owner.uid, owner.uid)

	for name, words in recorded(owner).items():
		plant(everybodys / name, owner, other, precious)
		got = owner.ctl(*words, everybodys / name, *(["--no-shim", "--", "/bin/true"] if words[0] == "record" else []))
		assert (name, got.returncode, got.stdout) == (name, 2, "")
		assert "it is left alone" in got.stderr and precious.read_text() == "precious\n"
		assert plant is not log_file or (everybodys / name).read_text() == ""


@pytest.fixture
def groups(stage):
	"""groups(person): a folder of root's in which the group of this person may make files, as a project's is."""
	def make(member):
		place = stage.memory / "project"
		place.mkdir()
		os.chown(place, 0, member.uid)
		place.chmod(0o2775)
		return place
	return make


@pytest.mark.parametrize("plant", [log_hard_link, log_file, log_fifo], ids=lambda plant: plant.__name__)
def test_in_a_folder_that_a_group_may_write_nothing_of_another_user_is_written(person, groups, plant):
	"""-o, the log, and what else goes by the same rule; root has most to lose."""
	root, other = person(uid=0), person(2)
	place = groups(other)
	precious = place / "precious"
	precious.write_text("precious\n")
	precious.chmod(0o600)
	plant(place / "out", root, other, precious)

	recorded = root.ctl("record", "--interval=0.05", "--quiet", "-o", place / "out", "--no-shim", "--", "/bin/true")
	logged = root.run(*WORK, **root.shimmed(LOG=place / "out", LOG_LEVEL="info", DIR=place / "files"))

	assert recorded.returncode == 2 and "it is left alone" in recorded.stderr
	assert logged.returncode == 0 and "cannot be opened for writing" in logged.stderr
	assert precious.read_text() == "precious\n"
	assert plant is not log_file or (place / "out").read_text() == ""


def test_in_a_folder_that_a_group_may_write_ones_own_files_and_its_owners_are_written(person, groups, stage):
	"""With umask 002, as Debian has it for users with a group of their own, each folder is such a one."""
	owner, other = person(1), person(2)
	home, team, his = stage.memory / "home", groups(owner), stage.memory / "his"
	for place, uid, gid in ((home, owner.uid, owner.uid), (his, other.uid, owner.uid)):
		place.mkdir()
		os.chown(place, uid, gid)
		place.chmod(0o2775)
	for place, uid in ((home, owner.uid), (team, owner.uid), (team, 0), (his, other.uid)):
		file = place / f"out-{uid}"
		file.write_text("")
		file.chmod(0o666)
		os.chown(file, uid, uid)
		for out in (file, place / "new", place / "new"):
			got = owner.ctl("record", "--interval=0.05", "--quiet", "-o", out, "--no-shim", "--", "/bin/true")
			assert (out, got.returncode, got.stderr) == (out, 0, "")
			assert out.stat().st_size > 100
		got = owner.run(*WORK, **owner.shimmed(LOG=file, LOG_LEVEL="info", DIR=stage.place / "files"))
		assert got.returncode == 0 and "cannot be opened" not in got.stderr and "jemalloc" in file.read_text()


def test_output_follows_ones_own_links_and_a_recording_is_for_its_owner_alone(person, everybodys, recorded):
	owner = person(1)
	own = everybodys / "mine"
	own.mkdir()
	os.chown(own, owner.uid, owner.uid)

	for name, words in recorded(owner).items():
		(everybodys / name).symlink_to(own / name)
		os.lchown(everybodys / name, owner.uid, owner.uid)
		more = ["--no-shim", "--", "/bin/true"] if words[0] == "record" else []
		for place in (everybodys / name, own / name):
			got = owner.ctl(*words, place, *more)
			assert (name, place, got.returncode, got.stderr) == (name, place, 0, "")
		assert (own / name).stat().st_size > 100
	assert (own / "record.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("who", [1, "root"])
def test_a_link_of_another_users_in_the_middle_of_a_path_is_not_followed(person, everybodys, stage, recorded, who):
	"""Neither by what mtctl is told to write into, nor, where the kernel refuses them, by the shim."""
	owner, other = person(uid=0) if who == "root" else person(1), person(2)
	home = stage.place / "home"
	home.mkdir(mode=0o700)
	os.chown(home, owner.uid, owner.uid)
	for uid, name in ((other.uid, "his"), (0, "roots")):
		(everybodys / name).symlink_to(home)
		os.lchown(everybodys / name, uid, uid)
	outputs = recorded(owner)

	def write_through(name):
		got = owner.run(*WORK, **owner.shimmed(LOG=everybodys / name / "log", LOG_LEVEL="info", DIR=stage.place / f"files-{name}"))
		assert (got.returncode, got.stdout) == (0, "well\n")
		done = [owner.ctl(*words, everybodys / name / file, *(["--no-shim", "--", "/bin/true"] if words[0] == "record" else []))
		        for file, words in outputs.items()]
		written = sorted(file.name for file in home.iterdir())
		for file in home.iterdir():
			file.unlink()
		return got.stderr, [one.returncode for one in done], written

	stage.place.chmod(0o777)
	assert write_through("roots") == ("", [0, 0], ["log", *sorted(outputs)])
	said, codes, written = write_through("his")
	assert codes == [2, 2]
	if pathlib.Path("/proc/sys/fs/protected_symlinks").read_text() == "1\n":  # the shim leaves these links to the kernel
		assert written == [] and "cannot be opened for writing" in said


def test_roots_links_are_followed_where_a_user_namespace_does_not_know_root(person, everybodys, stage):
	"""There they belong to an unknown user, as those of others do: /dev/stdout and /var/run are such links in many containers."""
	owner, other = person(1), person(2)
	(everybodys / "his").symlink_to("/dev/stdout")
	os.lchown(everybodys / "his", other.uid, other.uid)
	inside = ["unshare", "--user", "--map-user=1234", "/bin/sh", "-c", '"$@" | cat', "sh"]
	if owner.run(*inside, "/bin/true").returncode or "unshare" in owner.run(*inside, "/bin/true").stderr:
		pytest.skip("no user namespaces here")

	def record(output):
		return owner.run(*inside, stage.mtctl, "record", "--quiet", "-o", output, "--no-shim", "--", "/bin/true")

	assert '"kind":"header"' in record("/dev/stdout").stdout
	assert (record(everybodys / "his").stdout, "is another user's" in record(everybodys / "his").stderr) == ("", True)


EXCHANGE = """
import os, sys
name, aside, precious = sys.argv[1:]
print("ready", flush=True)
while True:
    os.rename(name, aside)
    try: os.symlink(precious, name)
    except FileExistsError: pass  # root has just made it again
    os.unlink(name)
    os.rename(aside, name)
"""


def test_who_owns_a_sticky_folder_gets_no_file_of_roots_overwritten(person, stage, recorded):
	"""The sticky bit keeps others from exchanging what lies in a folder, but not its owner: a file of root's there is a link to
	another file of root's a moment later."""
	other, root = person(2), person(uid=0)
	folder, precious = stage.place / "sticky", stage.place / "precious"
	folder.mkdir()
	folder.chmod(0o1777)
	os.chown(folder, other.uid, other.uid)
	precious.write_text("precious\n")
	precious.chmod(0o600)
	name = folder / "record.jsonl"
	name.write_text("")
	exchanger = stage.spawn(other.words(["/usr/bin/python3", "-c", EXCHANGE, name, folder / "aside", precious]), stage.bare)
	assert exchanger.stdout.readline() == "ready\n"

	codes = set()
	for _ in range(150):
		codes.add(root.ctl("record", "--quiet", "-o", name, "--no-shim", "--", "/bin/true").returncode)
		assert precious.read_text() == "precious\n"
		assert exchanger.poll() is None, exchanger.stderr.read()
	assert codes <= {0, 2}


LEASE = """import fcntl, os, signal, sys, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
fcntl.fcntl(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644), fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("ready", flush=True)
time.sleep(100)
"""


@pytest.mark.parametrize("trap", ["fifo", "lease"])
def test_output_into_the_folder_of_another_user_waits_for_nobody(person, stage, recorded, trap):
	"""A FIFO without a reader, and a lease, which the kernel waits for (45 s by default)."""
	other, root = person(2), person(uid=0)
	folder = stage.place / "others"
	folder.mkdir()
	os.chown(folder, other.uid, other.uid)

	for name, words in recorded(root).items():
		if trap == "fifo":
			os.mkfifo(folder / name)
			os.chown(folder / name, other.uid, other.uid)
		else:
			holder = stage.spawn(other.words(["/usr/bin/python3", "-c", LEASE, folder / name]), stage.bare)
			assert holder.stdout.readline() == "ready\n"
		got = root.ctl(*words, folder / name, *(["--no-shim", "--", "/bin/true"] if words[0] == "record" else []), timeout=10)
		assert (name, got.returncode, got.stdout) == (name, 2, "")
		assert ("is no regular file" if trap == "fifo" else "another process has a lease on it") in got.stderr
		assert len(got.stderr.splitlines()) == 1


# ---- a page and its token ----

def test_another_user_on_loopback_gets_the_page_and_nothing_else(person, stage, wait_for):
	"""Root's server knows of everybody's processes."""
	owner, other = person(1), person(2)
	puppet = owner.puppet(wait_for)
	server = stage.spawn([stage.mtctl, "serve", "--listen=127.0.0.1:0", f"--token-file={stage.place / 'token'}"], stage.bare)
	address = server.stdout.readline().split()[0]
	script = ("import sys, urllib.request, urllib.error\n"
	          "for path in sys.argv[2:]:\n"
	          "    try: answer = urllib.request.urlopen(sys.argv[1] + path)\n"
	          "    except urllib.error.HTTPError as error: answer = error\n"
	          "    print(answer.status, answer.read()[:60])\n")

	got = other.run("/usr/bin/python3", "-c", script, address, "", "metrics", "api/processes", f"api/processes/{puppet.pid}",
	                f"api/processes/{puppet.pid}/snapshot")

	statuses = [line.split()[0] for line in got.stdout.splitlines()]
	assert statuses == ["200", "401", "401", "401", "401"], got.stdout + got.stderr
	assert other.run("/bin/cat", stage.place / "token").returncode != 0


def test_a_token_that_another_user_has_prepared_is_refused(person, everybodys):
	"""He would know it."""
	owner, other = person(1), person(2)
	token = everybodys / "token"
	token.write_text("a" * 32)
	token.chmod(0o600)
	os.chown(token, other.uid, other.uid)

	for one in (owner, person(uid=0)):
		got = one.ctl("serve", "--listen=127.0.0.1:0", f"--token-file={token}")
		assert (got.returncode, got.stdout) == (2, ""), got.stderr
		assert "belongs to user" in got.stderr or "Permission denied" in got.stderr


def test_a_token_is_not_read_through_a_link_of_another_users(person, everybodys, stage):
	"""It would make the first line of a file of his choice the token, such as one that can be guessed. Links of root's, as those
	of Kubernetes' secrets are, are followed."""
	owner, other = person(1), person(2)
	for one in (owner, person(uid=0)):
		secrets = stage.place / f"secrets-{one.uid}"
		secrets.mkdir(mode=0o700)
		secret = secrets / "known"
		secret.write_text("root:*:20000:0:99999:7:::\n")
		secret.chmod(0o600)
		for file in (secrets, secret):
			os.chown(file, one.uid, one.uid)
		for uid, name, target in ((other.uid, f"his-{one.uid}", secret), (other.uid, f"way-{one.uid}", secrets),
		                          (0, f"roots-{one.uid}", secrets)):
			(everybodys / name).symlink_to(target)
			os.lchown(everybodys / name, uid, uid)

		for token in (everybodys / f"his-{one.uid}", everybodys / f"way-{one.uid}" / "known", everybodys / f"way-{one.uid}" / "new"):
			got = one.run("timeout", "5", stage.mtctl, "serve", "--listen=127.0.0.1:0", f"--token-file={token}")
			assert (token.name, got.returncode, got.stdout) == (token.name, 2, "")
			assert "is another user's" in got.stderr
		server = stage.spawn(one.words([stage.mtctl, "serve", "--listen=127.0.0.1:0",
		                                f"--token-file={everybodys / f'roots-{one.uid}' / 'known'}"]), stage.bare)
		assert "the token is in" in server.stdout.readline()
		assert not (secrets / "new").exists()


def test_the_stage_itself_is_sound(person, stage, wait_for):
	"""The owner can do all that the others could not: else the tests above would show nothing."""
	owner = person(1)
	puppet = owner.puppet(wait_for)

	assert owner.ctl("stat", puppet.pid, "--json").returncode == 0
	assert owner.ctl("trim", puppet.pid).returncode == 0
	assert owner.run("/bin/kill", "-USR1", puppet.pid).returncode == 0
	assert owner.run("/bin/cat", *owner.files(puppet.pid)).returncode == 0
	assert pathlib.Path(stage.mtctl).exists() and subprocess.run(owner.words(["id", "-u"]), capture_output=True, text=True,
	                                                             check=True).stdout == f"{owner.uid}\n"
