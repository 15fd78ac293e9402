"""make install, make deb and make dist: what is installed is found and works, and goes without a trace."""
import contextlib
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

import pytest

from mtctl_helpers import ROOT
from test_docs import broken_links

pytestmark = pytest.mark.xdist_group("ship")  # one worker: they build in the tree, one at a time

VERSION = re.search(r"^VERSION\s*:= (\S+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
OURS = re.compile(r"mtshim|mtctl")
# Holds 200 MB in small blocks, frees them, says so, and waits; nothing but a request makes the shim clean up.
HOARD = """
import sys
blocks = [bytes(4000) for _ in range(50000)]
blocks = None
print("ready", flush=True)
sys.stdin.read()
"""
# Every step of a person with a fresh package; the last line says how much of RSS the cleanup brought.
USE = r"""
set -eu
LD_PRELOAD=libmtshim.so MT_MIN_MB=0 python3 -c 'print("libmtshim.so" in open("/proc/self/maps").read())'
mkfifo /tmp/ship-in /tmp/ship-out
mtctl run --budget-pct=0 --pressure=0 -- python3 -c "$HOARD" </tmp/ship-in >/tmp/ship-out &
exec 8>/tmp/ship-in 9</tmp/ship-out
read -r _ <&9
pid=$!
mtctl ps --pids | grep -c "^$pid"
before=$(awk '/^VmRSS/ {print $2}' /proc/$pid/status)
mtctl trim $pid >/dev/null
after=$(awk '/^VmRSS/ {print $2}' /proc/$pid/status)
exec 8>&-
wait
echo $(((before - after) / 1024))
"""


def said(*words, **options):
	"""What a program that succeeds prints."""
	done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=900, **options)
	assert done.returncode == 0, done.stdout + done.stderr
	return done.stdout


def make(*words):
	own = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "MT"))}
	own["DPKG_DEB_COMPRESSOR_LEVEL"] = "0"  # no test is about the size
	return said("make", "-s", *words, cwd=ROOT, env=own)


def files_below(folder):
	return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


@contextlib.contextmanager
def alone_in_build():
	"""make writes the same files in build/ and dist/ for all: one at a time, of this run's workers and of any other run."""
	(ROOT / "build" / "tests").mkdir(parents=True, exist_ok=True)
	with open(ROOT / "build" / "tests" / "ship.lock", "w") as lock:
		fcntl.flock(lock, fcntl.LOCK_EX)
		yield


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
	"""shared(name, fill): a folder that fill(folder) fills once for all workers; none of them may write into it."""
	base = tmp_path_factory.getbasetemp()
	base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

	def one(name, fill):
		folder, done = base / f"ship-{name}", base / f"ship-{name}.done"
		with alone_in_build():
			if not done.exists():
				shutil.rmtree(folder, ignore_errors=True)
				folder.mkdir()
				fill(folder)
				done.touch()
		return folder
	return one


def copy_of(target, pattern):
	"""A fill for shared(): what `make target` leaves in dist/, and the checksums."""
	def fill(folder):
		make(target)
		for path in [*(ROOT / "dist").glob(pattern), ROOT / "dist/SHA256SUMS"]:
			shutil.copy(path, folder)
	return fill


@pytest.fixture(scope="session")
def deb(shared):
	"""Beside it: its bill of materials, SHA256SUMS."""
	return next(shared("deb", copy_of("deb", f"mtshim_{VERSION}_*")).glob("*.deb"))


@pytest.fixture(scope="session")
def dist(shared):
	"""Likewise."""
	return shared("dist", copy_of("dist", f"mtshim-{VERSION}.*")) / f"mtshim-{VERSION}.tar.xz"


# ---- make install ----

@pytest.fixture(scope="session")
def prefix(shared):
	return shared("install", lambda folder: make("install", "refresh=", f"PREFIX={folder}/usr")) / "usr"


def test_install_puts_everything_in_its_place(prefix):
	files = files_below(prefix)

	for file in ("lib/libmtshim.so", "bin/mtctl", "lib/mtshim/mtctl-top", "lib/mtshim/mtctl-plot",
	             "lib/mtshim/mtctl-serve", "include/mtshim.h", "lib/pkgconfig/mtshim.pc",
	             "share/man/man1/mtctl.1", "share/man/man7/mtshim.7",
	             "share/bash-completion/completions/mtctl", "share/zsh/site-functions/_mtctl",
	             "share/fish/vendor_completions.d/mtctl.fish",
	             "share/doc/mtshim/README.md", "share/doc/mtshim/examples/ranked.sh"):
		assert file in files
	assert not [file for file in files if file.endswith(".new")]
	shown = subprocess.run([prefix / "bin/mtctl", "help", "top"], capture_output=True, text=True)
	assert (shown.returncode, shown.stderr) == (0, "")


def test_the_links_of_the_installed_pages_lead_to_installed_files(prefix):
	pages = sorted((prefix / "share/doc/mtshim").rglob("*.md"))

	assert {"README.md", "install.md", "integrations.md", "servers.md", "api.md", "diagnose.md"} <= {page.name for page in pages}
	assert [(page.name, link) for page in pages for link in broken_links(page)] == []
	readme = pages[[page.name for page in pages].index("README.md")].read_text()
	assert "(mtctl.md)" in readme and "`docs/benchmarks.md` of the source" in readme


def test_the_installed_library_is_found_by_its_bare_name(prefix, bare, run):
	done = run(["python3", "-c", "print('libmtshim.so' in open('/proc/self/maps').read())"],
	           dict(bare, LD_LIBRARY_PATH=str(prefix / "lib"), LD_PRELOAD="libmtshim.so"))

	assert (done.stdout, done.stderr) == ("True\n", "")


def test_mtctl_run_finds_the_library_that_was_installed_with_it(prefix, bare, run):
	done = run([prefix / "bin/mtctl", "run", "--", "python3", "-c", "import os; print(os.environ['LD_PRELOAD'])"], bare)

	assert done.stdout == f"{prefix}/lib/libmtshim.so\n"


def test_an_unusual_libdir_is_known_to_mtctl(tmp_path, bare, run):
	"""That mtctl alone is linked again; the one in build/ stays as it was."""
	built = tmp_path / "build"
	make("B=" + str(built), "PREFIX=" + str(tmp_path), f"LIBDIR={tmp_path}/odd/place", f"{built}/obj/ctl/process/preload.o")

	assert f"{tmp_path}/odd/place".encode() in (built / "obj/ctl/process/preload.o").read_bytes()
	assert str(ROOT / "build").encode() not in (ROOT / "build/mtctl").read_bytes()


def test_an_installed_library_is_replaced_by_rename(tmp_path):
	library = tmp_path / "lib/libmtshim.so"
	library.parent.mkdir()
	library.write_text("the old one")

	with open(library) as held:
		with alone_in_build():
			make("install", "refresh=", f"PREFIX={tmp_path}")
		assert held.read() == "the old one" and os.fstat(held.fileno()).st_nlink == 0
	assert library.read_bytes()[:4] == b"\x7fELF"


def test_pkg_config_gives_what_a_program_needs(prefix, tmp_path, bare, run):
	environment = dict(bare, PKG_CONFIG_PATH=str(prefix / "lib/pkgconfig"))
	flags = said("pkg-config", "--cflags", "--libs", "mtshim", env=environment).split()
	source = tmp_path / "program.c"
	source.write_text("#include <mtshim.h>\n#include <stdio.h>\n"
	                  "int main(void) { puts(mt_allocator_type()); return mt_trim(9) != -1; }\n")

	subprocess.run(["cc", "-o", tmp_path / "program", source, *flags], check=True)
	done = run([tmp_path / "program"], dict(bare, LD_LIBRARY_PATH=str(prefix / "lib")))
	assert (done.returncode, done.stdout, done.stderr) == (0, "glibc\n", ""), "a small process is asleep"
	assert said("pkg-config", "--modversion", "mtshim", env=environment).strip() == VERSION


def test_uninstall_leaves_nothing_and_takes_nothing_else(tmp_path):
	root = tmp_path / "a root"
	kept = root / "usr/local/lib/other.so"
	kept.parent.mkdir(parents=True)
	kept.write_text("")
	with alone_in_build():
		make("install", f"DESTDIR={root}")

	assert (root / "usr/local/lib/libmtshim.so").exists()
	make("uninstall", f"DESTDIR={root}")

	assert files_below(root) == ["usr/local/lib/other.so"]
	assert [path for path in tmp_path.rglob("*") if OURS.search(path.name)] == []


# ---- make deb ----

@pytest.fixture
def machine(tmp_path_factory, deb):
	"""machine(script, NAME=VALUE...): runs as root of a machine of its own: this one's files below, what is written above
	and thrown away; machine.written is the folder with that."""
	base = pathlib.Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else tmp_path_factory.mktemp("machine")
	base = base / f"mtshim-ship-{os.getpid()}"
	script = f"""
		mkdir -p {base} && mount -t tmpfs tmpfs {base} && mkdir {base}/upper {base}/work {base}/root &&
		mount -t overlay overlay -o lowerdir=/,upperdir={base}/upper,workdir={base}/work {base}/root &&
		mount -t proc proc {base}/root/proc && mount --rbind /dev {base}/root/dev &&
		mount -t tmpfs tmpfs {base}/root/dev/shm &&
		echo up && exec sleep 900"""
	alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
	holder = subprocess.Popen([*alone, "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
	if holder.stdout.readline() != "up\n":
		pytest.skip("no mounts of one's own here: " + holder.stderr.read())
	inside = pathlib.Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()[0]

	def call(words, **environment):
		command = ["nsenter", "-t", inside, "--mount", "--pid", "chroot", base / "root", "/bin/sh", "-c", words]
		own = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
		return subprocess.run(command, env=dict(own, **environment), capture_output=True, text=True, timeout=300)

	call.written = pathlib.Path(f"/proc/{inside}/root{base}/upper")
	package = call.written / "tmp" / "mtshim.deb"
	package.parent.mkdir(exist_ok=True)
	package.write_bytes(deb.read_bytes())
	# Else dpkg has the index of all pages of this machine made again, twice.
	call("rm -f /var/lib/man-db/auto-update")
	yield call
	holder.kill()
	holder.wait()
	base.rmdir()


@pytest.mark.long
def test_lintian_has_nothing_to_say(deb):
	done = subprocess.run(["lintian", "--allow-root", "--fail-on=error,warning", deb], capture_output=True, text=True)

	assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.long
def test_the_same_source_gives_the_same_package(deb):
	with alone_in_build():
		make("deb")
		again = (ROOT / "dist" / deb.name).read_bytes()

	assert hashlib.sha256(again).hexdigest() == hashlib.sha256(deb.read_bytes()).hexdigest()


def test_what_is_installed_does_not_name_the_folder_where_it_was_built(shim):
	for binary in ("libmtshim.so", "mtctl", "mtctl-top"):
		assert str(ROOT).encode() not in (ROOT / "build" / binary).read_bytes()


def test_the_package_needs_what_mtctl_needs_and_recommends_the_rest(deb):
	def field(name):
		return subprocess.run(["dpkg-deb", "-f", deb, name], capture_output=True, text=True).stdout

	assert "libc6 (>=" in field("Depends") and "libjansson4" in field("Depends")
	for library in ("libcairo2", "libncursesw6", "libmicrohttpd12", "libdw1"):
		assert library in field("Recommends") and library not in field("Depends")


def test_the_package_is_installed_used_and_removed(machine):
	done = machine("dpkg --force-unsafe-io -i /tmp/mtshim.deb")
	assert done.returncode == 0, done.stdout + done.stderr
	used = machine(USE, HOARD=HOARD)
	assert used.returncode == 0, used.stderr
	assert used.stdout.split()[:2] == ["True", "1"] and int(used.stdout.split()[2]) > 150
	shown = machine("man -w mtctl 7 mtshim && mtctl help serve && pkg-config --libs mtshim && "
	                "systemd-analyze verify /usr/share/doc/mtshim/examples/mtctl-serve@.service")
	assert shown.returncode == 0, shown.stderr
	assert shown.stdout.startswith("/usr/share/man/man1/mtctl.1.gz\n/usr/share/man/man7/mtshim.7.gz\n")
	others = re.compile(r"(/usr)?/lib/systemd/system/")  # the machine's own units may have lines that systemd complains of
	assert "-lmtshim" in shown.stdout and [line for line in shown.stderr.splitlines() if not others.match(line)] == []

	removed = machine("dpkg -r mtshim && rm /tmp/mtshim.deb /tmp/ship-*")
	assert removed.returncode == 0, removed.stderr
	assert machine("LD_PRELOAD=libmtshim.so /bin/true").stderr.count("cannot be preloaded") == 1
	# But for the pages that man itself has kept.
	left = [path.relative_to(machine.written) for path in machine.written.rglob("*") if OURS.search(path.name)]
	assert [path for path in left if path.parts[:3] != ("var", "cache", "man")] == []


# ---- make dist ----

def test_the_tarball_is_what_is_committed_with_its_bill_and_nothing_else(dist):
	with tarfile.open(dist) as tar:
		names = [member.name for member in tar if not member.isdir()]
	committed = said("git", "ls-tree", "-r", "--name-only", "HEAD", cwd=ROOT).splitlines()

	assert sorted(names) == sorted(f"mtshim-{VERSION}/{name}" for name in [*committed, f"mtshim-{VERSION}.spdx.json"])


@pytest.mark.long
def test_the_same_commit_gives_the_same_tarball(dist):
	with alone_in_build():
		make("dist")
		again = (ROOT / "dist" / dist.name).read_bytes()

	assert hashlib.sha256(again).hexdigest() == hashlib.sha256(dist.read_bytes()).hexdigest()


def unpack(dist, folder):
	with tarfile.open(dist) as tar:
		tar.extractall(folder)
	return folder / f"mtshim-{VERSION}"


def test_the_tarball_has_all_that_make_wants(dist, tmp_path):
	"""Every rule finds its sources; what the compiler makes of them is for the next one."""
	assert "libmtshim.so" in said("make", "-n", "install", "deb", cwd=unpack(dist, tmp_path))


@pytest.mark.long
def test_the_tarball_builds_installs_and_packs(dist, tmp_path):
	source = unpack(dist, tmp_path)

	said("make", "-s", "-j2", "install", "deb", f"DESTDIR={tmp_path}/out", cwd=source)

	assert (tmp_path / "out/usr/local/bin/mtctl").exists() and list((source / "dist").glob("*.deb"))
