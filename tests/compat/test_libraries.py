"""Libraries that come and go, that bind deeply, that have a namespace of their own, and the shim as such a library."""
import shutil

import pytest

BUSY = {"MIN_MB": 0, "TICK_MS": 10, "IDLE_MS": 10, "SLACK_MB": 0, "SLACK_PCT": 0, "BUDGET_PCT": 100}


@pytest.fixture
def plugin(compile_c):
	return compile_c("plugin.c", "-shared", "-fPIC")


@pytest.fixture
def go(run, env, compile_c, plugin, backend):
	def go_one(way, *words, timeout=60, **settings):
		return run([compile_c("libraries.c"), way, plugin, *words], env(**settings), timeout)
	return go_one


@pytest.mark.parametrize("settings", [{}, BUSY], ids=["asleep", "busy"])
def test_a_library_may_come_and_go_a_thousand_times(go, settings):
	"""What it handed out stays, its thread-locals go, and nothing of it is kept."""
	got = go("cycle", 1000, **settings)

	assert (got.returncode, got.stdout, got.stderr) == (0, "1000 well, grown: no\n", "")


def test_libraries_come_and_go_in_two_threads(go):
	got = go("threads", 300, **BUSY)

	assert (got.returncode, got.stdout, got.stderr) == (0, "600 well\n", "")


def test_a_library_bound_deeply_shares_memory_with_its_program(go, backend):
	"""It got libc's malloc and free, and blocks of ours from libc's strdup: "free(): invalid pointer"."""
	got = go("deep")

	assert (got.returncode, got.stdout, got.stderr) == (0, "200 well, closed: 1\n", "")
	assert ("removing RTLD_DEEPBIND" in go("deep", LOG_LEVEL="info").stderr) == (backend == "jemalloc")


def test_a_namespace_of_its_own_has_a_heap_of_its_own(go):
	got = go("space")

	assert (got.returncode, got.stdout, got.stderr) == (0, "200 well, closed: 1\n", "")


def test_a_caller_of_dlopen_stays_the_caller(run, env, compile_c, backend, tmp_path):
	"""By its caller the loader finds the runpath: that of this program, and of nobody else."""
	library = compile_c("plugin.c", "-shared", "-fPIC")
	shutil.copy(library, tmp_path / "libmtbeside.so")
	program = compile_c("libraries.c", f"-Wl,-rpath,{tmp_path}", "-Wl,--enable-new-dtags")

	got = run([program, "cycle", "libmtbeside.so", 5], env())

	assert (got.returncode, got.stdout, got.stderr) == (0, "5 well, grown: no\n", "")


def test_an_audit_library_sees_a_program_as_ever(run, env, bare, compile_c, backend):
	"""With one, the loader lays out thread-locals before it has seen what is preloaded, and has room for less than an allocator of
	this kind has. It says so and stops, as it does for libjemalloc.so.2; a setting of its own makes room."""
	program = compile_c("heap_family.c")
	settings = dict(env(**BUSY), LD_AUDIT=str(compile_c("plugin.c", "-shared", "-fPIC", "-DAUDIT")))

	refused = run([program], settings)
	got = run([program], dict(settings, GLIBC_TUNABLES="glibc.rtld.optional_static_tls=8192"))

	assert refused.returncode == 127 and "cannot allocate memory in static TLS block" in refused.stderr
	assert (got.returncode, got.stdout, got.stderr) == (0, run([program], bare).stdout, "")


@pytest.mark.parametrize("preloaded", [False, True], ids=["alone", "preloaded"])
def test_a_program_that_opens_and_closes_the_shim_lives_on(run, env, compile_c, shim, mt_dir, preloaded):
	"""Its code was unmapped under the worker's feet."""
	settings = env(**BUSY)
	if not preloaded:
		del settings["LD_PRELOAD"]

	got = run([compile_c("libraries.c"), "unload", shim], settings)

	if "static TLS" in got.stderr:
		assert got.returncode == 3, "libc has no room for thread-locals of a library so late: it says so"
		return
	assert (got.returncode, got.stdout, got.stderr) == (0, "lives on\n", "")
	assert list(mt_dir.iterdir()) == []
