"""glibc's own tests of malloc, threads, processes, signals and streams, from the source that Debian packages (glibc-source). It is
unpacked and built below build/suites, against the installed libc, with glibc's own helpers (support/).

Not all of its tests build outside of its tree; which do not, and why, is in build/suites/glibc-VERSION-tests/not-built.txt.
"""
import concurrent.futures
import dataclasses
import os
import pathlib
import platform
import re
import subprocess
import tarfile

from suite_read import read_exit
from suite_run import Unit

HERE = pathlib.Path(__file__).resolve().parent
PLACE = HERE.parents[1] / "build" / "suites"
PACKAGED = "/usr/src/glibc"

FOLDERS = ("malloc", "nptl", "sysdeps/pthread", "signal", "posix", "dlfcn", "stdlib", "libio", "rt", "setjmp")
TESTS = ("tst*.c", "test*.c", "bug*.c", "mallocbug.c", "*mod*.c", "*lib[0-9].c")
# Into a static program nothing is preloaded. The tests named *-time64 are the same again where time_t has 64 bits. The last forks a
# quarter of a million processes, which takes longer than its time limit where the machine has anything else to do.
LEFT_OUT = ("-static", "-time64", "tst-arc4random-fork")
# Words of a command line that its Makefile gives to a test.
ARGUMENTS = {
	"nptl/tst-cancel7": ("--command", "exec {program}"), "nptl/tst-cancelx7": ("--command", "exec {program}"),
	"nptl/tst-exec4": ("{program}",), "posix/tst-exec": ("--", "{program}"), "posix/tst-execvpe5": ("--", "{program}"),
	"posix/tst-spawn": ("--", "{program}"), "posix/tst-spawn5": ("--", "{program}"), "posix/tst-spawn6": ("--", "{program}"),
	"posix/tst-vfork3": ("--test-dir={{tmp}}/",), "posix/tst-execvp3": ("--test-dir={{tmp}}/",),
	"rt/tst-mqueue7": ("--", "{program}"), "sysdeps/pthread/tst-umask1": ("{{tmp}}/file",),
	"stdlib/test-canon": ("--test-dir={{tmp}}",), "libio/tst_wprintf2": ("Some Text",),
}
ENVIRONMENT = {"malloc/tst-mxfast": (("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0"),),
               "stdlib/bug-fmtmsg1": (("SEV_LEVEL", "foo,11,newsev"),)}


@dataclasses.dataclass(frozen=True)
class Tree:
	"""The unpacked source, and beside it what is built."""
	root: pathlib.Path

	@property
	def built(self):
		return self.root.with_name(f"{self.root.name}-tests")

	def compiler(self, *folders):
		"""The installed headers come first; what only glibc has is found in its tree."""
		machine = {"x86_64": ("sysdeps/x86_64", "sysdeps/x86")}.get(platform.machine(), (f"sysdeps/{platform.machine()}",))
		inner = ("", "include", "support", "sysdeps/pthread", "sysdeps/nptl", "nptl", "malloc", *machine, "sysdeps/unix/sysv/linux",
		         "sysdeps/generic", *folders)
		return ["gcc", "-std=gnu11", "-O2", "-g", "-w", "-D_GNU_SOURCE", "-D_ISOMAC", "-DMODULE_NAME=testsuite",
		        "-include", HERE / "glibc" / "outside.h", "-I", HERE / "glibc",
		        *(word for folder in inner for word in ("-idirafter", self.root / folder))]


def _unpack():
	archive = next(pathlib.Path(PACKAGED).glob("glibc-*.tar.xz"))
	root = PLACE / archive.name.removesuffix(".tar.xz")
	if not (root / "unpacked").exists():
		PLACE.mkdir(parents=True, exist_ok=True)
		with tarfile.open(archive) as tar:
			tar.extractall(PLACE)
		(root / "unpacked").touch()
	return Tree(root)


def _compile(command, target):
	"""Returns the first error, or nothing. A file that is there is not built again."""
	if target.exists():
		return ""
	target.parent.mkdir(parents=True, exist_ok=True)
	done = subprocess.run([*map(str, command), "-o", f"{target}.new"], capture_output=True, text=True)
	if done.returncode == 0:
		os.rename(f"{target}.new", target)
		return ""
	return next((line for line in done.stderr.splitlines() if "error" in line or "undefined" in line), "cannot be built")


def _pooled(function, items):
	with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
		return list(pool.map(function, items))


def _build_support(tree):
	"""glibc's helpers as an archive; those that do not build are missed by the tests that want them."""
	library = tree.built / "support.a"
	sources = [path for path in sorted((tree.root / "support").glob("*.c"))
	           if not path.stem.startswith(("tst-", "README")) and " main (int" not in path.read_text(errors="replace")]
	_pooled(lambda path: _compile([*tree.compiler(), "-c", path], tree.built / "support" / f"{path.stem}.o"), sources)
	if not library.exists():
		subprocess.run(["ar", "qcs", library, *sorted((tree.built / "support").glob("*.o"))], check=True)
	return library


def is_part(name):
	"""A library that tests load, or a part of other tests."""
	return bool(re.search(r"((?<!ch)mod|aux|lib)[0-9]*[a-z]?[0-9]*$|^mod", name))


def _build_test(tree, library, path, name):
	"""A test is one file, or one file with parts and libraries that have its name before theirs."""
	folder, target = path.parent, tree.built / name
	words = [*tree.compiler(folder), path]
	libraries = [library, library, "-pthread", "-lrt", "-lm", "-rdynamic", "-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN"]
	parts = [*folder.glob(f"{path.stem}*aux*.c"), *target.parent.glob(f"{path.stem}*mod*.so")]
	error = _compile([*words, *libraries], target)
	return _compile([*words, *parts, *libraries], target) and error if error and parts else error


def build():
	"""Returns the programs of the tests by folder and file: malloc/tst-trim1."""
	tree = _unpack()
	library = _build_support(tree)
	tests, parts = {}, {}
	for folder in FOLDERS:
		for path in sorted({path for pattern in TESTS for path in (tree.root / folder).glob(pattern)}):
			if not any(word in path.stem for word in LEFT_OUT):
				(parts if is_part(path.stem) else tests)[f"{folder}/{path.stem}"] = path
	_pooled(lambda one: _compile([*tree.compiler(one[1].parent), "-shared", "-fPIC", one[1]], tree.built / f"{one[0]}.so"),
	        parts.items())
	errors = dict(zip(tests, _pooled(lambda one: _build_test(tree, library, one[1], one[0]), tests.items())))
	(tree.built / "not-built.txt").write_text("".join(f"{name}: {error}\n" for name, error in errors.items() if error))
	return {name: tree.built / name for name, error in errors.items() if not error}


def glibc():
	"""Each ends by its own time limit, 20 s where a test has no other, which is doubled here: two run at a time."""
	units = []
	for name, path in build().items():
		program = str(path).replace("{", "{{").replace("}", "}}")
		arguments = [word.format(program=program) for word in ARGUMENTS.get(name, ())]
		units.append(Unit("glibc", name, (program, *arguments), read_exit, 240, only_if_passes=True,
		                  environment=(("TIMEOUTFACTOR", "2"), *ENVIRONMENT.get(name, ()))))
	return units
