"""The suites: other people's tests that Debian packages ship, by package and command. Nothing is fetched, and only glibc's are built.

A suite is a function that answers its units; what it needs installed is in its row. What a row leaves out, and why, stands
with it.
"""
import pathlib
import shlex
import subprocess

from suite_glibc import glibc
from suite_read import read_exit, read_junit, read_lines, read_mtr, read_tap
from suite_run import Unit

PYTHON = "/usr/bin/python3"
VERSION = subprocess.run([PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True).stdout.strip()
MODULES = pathlib.Path("/usr/lib/python3/dist-packages")
EVERY = ("jemalloc", "system", "default", "rounds")


# ---- CPython ----

# Tests of CPython, with their time limits where two minutes are not enough: what has to do with memory, threads, processes and
# signals, and then what is cheap.
CPYTHON = {
	"test_signal": 300, "test_threading": 300, "test_thread": 120, "test_fork1": 300, "test_multiprocessing_fork": 900,
	"test_multiprocessing_spawn": 1500, "test_multiprocessing_forkserver": 900, "test_multiprocessing_main_handling": 300,
	"test_subprocess": 600, "test_asyncio": 900, "test_gc": 120, "test_faulthandler": 300, "test_ctypes": 120, "test_mmap": 120,
	"test_os": 300, "test_posix": 120, "test_json": 300, "test_io": 600, "test_tracemalloc": 120,
	"test_weakref": 300, "test_concurrent_futures": 1200, "test_ssl": 600, "test_pickle": 300,
	"test_zlib": 120, "test_bz2": 120, "test_lzma": 120, "test_socket": 600, "test_selectors": 120, "test_sys": 120,
	"test_cmd_line": 300, "test_embed": 300, "test_atexit": 120, "test_resource": 120, "test_threadsignals": 120,
	"test_threading_local": 120, "test_threadedtempfile": 120, "test_queue": 300,
	"test_sched": 120, "test_wait3": 120, "test_wait4": 120, "test_popen": 120, "test_pty": 120, "test_interpreters": 120,
	"test__xxsubinterpreters": 300, "test_finalization": 120, "test_bytes": 300, "test_buffer": 300, "test_array": 120,
	"test_memoryview": 120, "test_list": 120, "test_dict": 120, "test_set": 120, "test_unicode": 120, "test_re": 120,
	"test_exceptions": 120, "test_generators": 120, "test_coroutines": 120, "test_decimal": 300, "test_hashlib": 120,
	"test_pyexpat": 120, "test_xml_etree": 120, "test_xml_etree_c": 120, "test_getpass": 120, "test_crypt": 120,
	"test_locale": 120, "test_readline": 120, "test_poll": 120, "test_epoll": 120, "test_select": 120, "test_eintr": 120,
}

# A virtual machine whose vsock has no way to itself waits for ever for its own connection.
CPYTHON_LEFT_OUT = {"test_socket": ("--ignore", "ThreadedVSOCKSocketStreamTest")}


def cpython_unit(name, limit_s=120):
	words = (PYTHON, "-m", "test", "--junit-xml", "{out}", *CPYTHON_LEFT_OUT.get(name, ()), name)
	return Unit("cpython", name, words, read_junit, limit_s, EVERY)


def is_in_this_python(name):
	"""test_crypt and test__xxsubinterpreters ended with CPython 3.13."""
	folder = pathlib.Path(f"/usr/lib/python{VERSION}/test")
	return not folder.exists() or (folder / f"{name}.py").exists() or (folder / name).exists()


def cpython():
	return [cpython_unit(name, limit_s) for name, limit_s in CPYTHON.items() if is_in_this_python(name)]


# ---- Python packages that ship their tests ----

def pytest_unit(suite, name, paths, limit_s=600, environment=(), options=()):
	"""Their own conftest.py files are found from the root that is given; no bytecode is left in the system's folders."""
	words = (PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={MODULES}", f"--confcutdir={MODULES}",
	         "--junitxml={out}", *options)
	return Unit(suite, name, (*words, *(str(MODULES / path) for path in paths)), read_junit, limit_s,
	            environment=(("PYTHONDONTWRITEBYTECODE", "1"), *environment))


def numpy():
	parts = ("core", "lib", "linalg", "random", "ma", "fft", "polynomial")
	# It would take whatever memory it finds.
	return [pytest_unit("numpy", part, [f"numpy/{part}/tests"], 1200, (("NPY_AVAILABLE_MEM", "1 GB"),)) for part in parts]


def pandas():
	parts = {"libs": ["libs"], "internals": ["internals"], "sorting": ["test_sorting.py", "test_algos.py", "test_take.py"],
	         "window": ["window/test_rolling.py"], "parser": ["io/parser/test_c_parser_only.py"],
	         "groupby": ["groupby/test_groupby.py"], "merge": ["reshape/merge/test_merge.py"]}
	return [pytest_unit("pandas", name, [f"pandas/tests/{path}" for path in paths]) for name, paths in parts.items()]


def psutil():
	names = ("connections", "contracts", "linux", "misc", "posix", "process", "system", "unicode", "memleaks")
	# These read a figure of the whole machine twice, and want it to be nearly the same.
	options = ("-k", "not test_ctx_switches and not test_interrupts and not test_soft_interrupts")
	return [pytest_unit("psutil", name, [f"psutil/tests/test_{name}.py"], options=options) for name in names]


def greenlet():
	return [pytest_unit("greenlet", "greenlet", ["greenlet/tests"])]


def numba():
	names = ("nrt", "nrt_refct", "gil", "threadsafety", "buffer_protocol", "ctypes", "cffi", "listobject", "dyn_array")
	# These want that another test has initialised numba's run time before them, and die of a SIGSEGV without the shim.
	options = ("-k", "not TestNrtMemInfo")
	return [pytest_unit("numba", name, [f"numba/tests/test_{name}.py"], 1800, options=options) for name in names]


# ---- PyTorch ----

# Not tests of anything: a benchmark, an interactive program, a check of which names a library shows; and what was tested when it
# was compiled, and runs nothing.
TORCH_NO_TESTS = ("c10_intrusive_ptr_benchmark", "mobile_memory_cleanup", "test_parallel_benchmark", "verify_api_visibility",
                  "c10_Array_test", "c10_ConstexprCrc_test", "c10_StreamGuard_test", "c10_TypeTraits_test", "op_allowlist_test")
TORCH_EXIT_ALONE = ("thread_init_test",)  # a program with a main() of its own


def torch():
	"""The tests of its C++ half, and each operator that its own tests know, on the inputs that they know for it: the same bits."""
	units = []
	for path in sorted(pathlib.Path("/usr/lib/libtorch-test").glob("*")):
		if path.is_file() and path.suffix == "" and path.name not in TORCH_NO_TESTS:
			read = read_exit if path.name in TORCH_EXIT_ALONE else read_junit
			units.append(Unit("torch", path.name, (str(path), "--gtest_output=xml:{out}"), read, 300))
	for part in range(4):
		units.append(Unit("torch", f"operators-{part}", (PYTHON, "{here}/torch_operators.py", str(part), "4"), read_lines, 900,
		                  environment=(("PYTHONHASHSEED", "0"),)))
	return units


# ---- tests that are installed as programs ----

def installed_tests(folder, skip=lambda name: False):
	"""GNOME's convention: a key file for each test says how it is run, and it prints TAP."""
	units = []
	for path in sorted(pathlib.Path("/usr/share/installed-tests", folder).rglob("*.test")):
		if skip(path.stem):
			continue
		lines = dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)
		words = [word.replace("{", "{{").replace("}", "}}") for word in shlex.split(lines["Exec"])]
		units.append(Unit(folder, path.stem, tuple(words), read_tap if lines.get("Output") == "TAP" else read_exit, 120))
	return units


def glib():
	"""Not cxx* and deftype, which run nothing: that they compile is the test; and not 1bit-mutex, 20 s of nothing but spinning."""
	return installed_tests("glib", skip=lambda name: name.startswith(("cxx", "deftype", "1bit-mutex")))


def gdk_pixbuf():
	return installed_tests("gdk-pixbuf")


def dbus():
	return installed_tests("dbus")


def systemd():
	"""As nobody: what wants more than that skips itself (status 77), and none can harm the machine."""
	units = []
	for path in sorted(pathlib.Path("/usr/lib/systemd/tests").rglob("test-*")):
		if path.is_file() and path.stat().st_mode & 0o111 and not {"manual", "unsafe", "testdata"} & set(path.parts):
			units.append(Unit("systemd", path.name, (str(path),), read_exit, 120, as_nobody=True))
	return units


def openssh():
	"""Not test_utf8, which aborts at its first line where no locale en_US.UTF-8 is. The limit is for test_bitmap and
	test_sshkey, minutes of nothing but computing."""
	folder = pathlib.Path("/usr/lib/openssh/regress")
	units = [Unit("openssh", path.name, (str(path), "-d", str(folder / "unittests" / path.parent.name / "testdata")),
	              read_exit, 1800) for path in sorted(folder.glob("unittests/*/test_*"))
	         if path.is_file() and path.suffix == "" and path.name != "test_utf8"]
	return units


# ---- stress-ng ----

# Its classes memory and vm, and what else is about processes, threads, signals and address spaces, as far as it needs no
# privileges, ends by itself, and does not aim at the machine's last byte (bigheap, brk, env and resources by a count of
# operations; not mmapfork, oom-pipe, ramfs, swap, memhotplug, forkheavy, dev-shm).
STRESSORS = """
	atomic bad-altstack bsearch cacheline context fault full funcret heapsort hsearch judy list lsearch madvise malloc matrix
	matrix-3d mcontend membarrier memcpy memfd memrate memthrash mergesort mincore misaligned mlock mmap mmapaddr mmapfixed 
	mmaphuge mmapmany mprotect mremap msync msyncmany munmap mutex null numa pageswap peterson physpage pkey prefetch
	qsort radixsort randlist remap rmap secretmem shellsort shm shm-sysv skiplist sparsematrix stack stackmmap str stream
	tlb-shootdown tree tsearch userfaultfd vm vm-addr vm-rw vm-segv vm-splice wcs zero
	clone daemon dekker dynlib exec exit-group fork futex itimer kill longjmp nanosleep pipe poll pthread schedpolicy sem session
	sigabrt sigchld sigfd sigfpe sigio signal signest sigpending sigpipe sigq sigrt sigsegv sigsuspend sigtrap spawn switch
	timer timerfd vfork wait zombie
""".split()
STRESSORS_COUNTED = {"bigheap": 2000, "brk": 20000, "env": 2000, "resources": 20, "vforkmany": 2000, "mlockmany": 200}
STRESSORS_BOUNDED = {"malloc": ("--malloc-bytes", "1M", "--malloc-max", "4096", "--malloc-pthreads", "2"),
                     "memfd": ("--memfd-bytes", "64M"), "memrate": ("--memrate-bytes", "64M"), "mmap": ("--mmap-bytes", "64M"),
                     "mremap": ("--mremap-bytes", "32M"), "msync": ("--msync-bytes", "16M"), "shm": ("--shm-bytes", "4M"),
                     "shm-sysv": ("--shm-sysv-bytes", "4M"), "vm": ("--vm-bytes", "64M"), "vm-rw": ("--vm-rw-bytes", "16M"),
                     "vm-splice": ("--vm-splice-bytes", "16M"), "zombie": ("--zombie-max", "200")}


def stress_ng():
	def unit(name, *limits):
		words = ("stress-ng", "--temp-path", "{tmp}", "--verify", f"--{name}", "1", *STRESSORS_BOUNDED.get(name, ()), *limits)
		return Unit("stress-ng", name, words, read_exit, 60, as_nobody=True)
	return [unit(name, "--timeout", "2s") for name in STRESSORS] + \
		[unit(name, "--timeout", "20s", f"--{name}-ops", str(count)) for name, count in STRESSORS_COUNTED.items()]


# ---- servers and browsers ----

MARIADB = """
	main.select main.join main.subselect main.group_by main.order_by main.func_str main.func_group main.func_time main.union
	main.insert main.update main.delete main.create main.alter_table main.view main.trigger main.sp main.ps main.type_blob
	main.type_varchar main.type_newdecimal main.ctype_utf8 main.fulltext main.partition main.cte_recursive main.win main.bigint
	main.key main.information_schema main.lock_multi main.kill innodb.innodb innodb.innodb_mysql
""".split()


def mariadb():
	"""A server of many threads with its client, a statement at a time, the answers compared line by line."""
	script = ("cd /usr/share/mysql/mysql-test && exec ./mariadb-test-run.pl --force --vardir={tmp}/var --retry=0 "
	          "--suite-timeout=25 " + " ".join(MARIADB))
	return [Unit("mariadb", "main", ("/bin/sh", "-c", script), read_mtr, 1800, as_nobody=True)]


def chromium():
	"""The browser itself: it has an allocator of its own (PartitionAlloc), forks its processes from zygotes, and compiles what it
	runs. The page's document is the same. And once more in its sandbox, for which it must not be root."""
	words = (PYTHON, "{here}/chromium_pages.py")
	return [Unit("chromium", "pages", words, read_lines, 180),
	        Unit("chromium", "sandboxed", (*words, "--sandbox"), read_lines, 180, ("default",), as_nobody=True)]


# name: what answers its units, packages that must be installed
SUITES = {
	"cpython": (cpython, [f"libpython{VERSION}-testsuite"]),
	"numpy": (numpy, ["python3-numpy", "python3-hypothesis", "python3-pytest"]),
	"pandas": (pandas, ["python3-pandas", "python3-hypothesis", "python3-pytest"]),
	"psutil": (psutil, ["python3-psutil", "python3-pytest"]),
	"greenlet": (greenlet, ["python3-greenlet", "python3-objgraph", "python3-psutil", "python3-pytest"]),
	"numba": (numba, ["python3-numba", "python3-cffi", "python3-pytest"]),
	"torch": (torch, ["python3-torch", "libtorch-test"]),
	"glib": (glib, ["libglib2.0-tests"]),
	"gdk-pixbuf": (gdk_pixbuf, ["gdk-pixbuf-tests"]),
	"dbus": (dbus, ["dbus-tests"]),
	"systemd": (systemd, ["systemd-tests"]),
	"openssh": (openssh, ["openssh-tests"]),
	"glibc": (glibc, ["glibc-source"]),
	"stress-ng": (stress_ng, ["stress-ng"]),
	"mariadb": (mariadb, ["mariadb-test"]),
	"chromium": (chromium, ["chromium"]),
}

# What CI runs, of all of them: signals, forks, threads, the collector, and what a crash prints.
CI_CPYTHON = ("test_fork1", "test_thread", "test_gc")  # the others take a minute or more


def missing_packages(suite):
	def is_installed(package):
		done = subprocess.run(["dpkg-query", "-W", "-f=${db:Status-Status}", package], capture_output=True, text=True)
		return done.stdout == "installed"
	return [package for package in SUITES[suite][1] if not is_installed(package)]


def versions(suite):
	"""{package: version} of what a suite's tests come from."""
	return {package: subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], capture_output=True, text=True).stdout
	        for package in SUITES[suite][1]}
