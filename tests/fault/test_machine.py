"""The machine refuses resources: a sandbox refuses system calls, a full file system refuses files, limits refuse descriptors, threads
and address space. The program's result is the same as without the shim."""
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shutil

import pytest

import stats_raw
import sweep

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to unshare or to become nobody")
AWAKE = {name[3:]: value for name, value in sweep.AWAKE.items()}


@pytest.fixture
def phases():
	path = ROOT / "build" / "tests" / "faults" / "phases"
	if not path.exists():
		pytest.fail("the program is not built: make fault-shim", pytrace=False)
	return path


@pytest.fixture
def refusing(phases):
	"""refusing(SPEC): a command to put before another, which then runs under this filter."""
	return lambda spec: [phases.with_name("filter"), spec]


def same(run, env, bare, phases, *words, wrapper=(), expected_wrapper=None, most=2, **settings):
	"""The transcript and status of phases.c, with the shim as without it. The shim is preloaded behind the wrapper."""
	settings = env(**AWAKE, **settings)
	library = settings.pop("LD_PRELOAD")
	plain = wrapper if expected_wrapper is None else expected_wrapper
	expected = run([*plain, phases, *words], bare)

	got = run([*wrapper, "/usr/bin/env", f"LD_PRELOAD={library}", phases, *words], settings)

	assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout), got.stderr
	ours = [line for line in got.stderr.splitlines() if "warn: memory pressure: RAM at" not in line]  # the machine's, of other tests
	assert len(ours) <= most, got.stderr
	return got


# ---- a sandbox ----

# What no program needs, and what the shim lives without. Before the program begins, as a container's filter is...
SANDBOXES = [
	"EPERM:madvise", "ENOSYS:madvise", "EINVAL:madvise", "ENOSYS:close_range", "EPERM:close_range", "EPERM:futex/5",
	"ENOSYS:futex/5", "EPERM:futex/0", "ENOSYS:futex/0,futex/5", "ENOSYS:futex/0,futex/1,futex/5",
	"EPERM:sched_getaffinity,sched_setaffinity", "ENOSYS:sched_getaffinity,sched_yield,sched_setaffinity",
	"EPERM:process_vm_readv,perf_event_open,membarrier", "EPERM:getrusage,sysinfo,statfs,fstatfs", "ENOSYS:clock_gettime",
	"EPERM:clock_gettime", "EPERM:socket,connect", "EACCES:mkdir,mkdirat", "EPERM:prctl", "EPERM:ppoll,poll",
	"EPERM:tgkill,rt_sigtimedwait", "ENOSYS:pwrite64,ftruncate", "EPERM:unlink,unlinkat,rename,renameat",
	"EPERM:gettid",  # never getpid: kill(getpid(), ...) would go to every process there is
]
# ... and from main on, as a program's own sandbox is: then a worker runs already, and all of this is taken from it.
LATER = SANDBOXES + [
	"EPERM:openat", "ENOSYS:openat,madvise,futex/5", "EACCES:openat,pwrite64,mkdir,unlink", "EPERM:pread64", "ENOSYS:pread64",
	"EPERM:nanosleep,futex/0,futex/5", "EPERM:munmap",
]


def differences(jobs):
	"""jobs: label, command and environment without the shim, and with it. What differs, several run at once."""
	def one(job):
		label, plain, plain_env, command, settings = job
		expected = sweep.Result(*sweep.execute(plain, plain_env), {}, {})
		wrong = sweep.complaint(expected, sweep.Result(*sweep.execute(command, settings), {}, {}))
		return f"{label}: {wrong}" if wrong else ""

	with concurrent.futures.ThreadPoolExecutor(2 + 2 * os.cpu_count()) as pool:
		return "\n".join(filter(None, pool.map(one, jobs)))


def test_a_program_runs_the_same_in_each_of_the_sandboxes(env, bare, phases, refusing, backend):
	settings = env(**AWAKE)
	preload = ["/usr/bin/env", f"LD_PRELOAD={settings.pop('LD_PRELOAD')}"]

	assert not differences([(spec, [*refusing(spec), phases], bare, [*refusing(spec), *preload, phases], settings)
	                        for spec in SANDBOXES])


def test_sandboxes_that_the_program_enters(env, bare, phases, backend):
	settings = env(**AWAKE)
	command = [phases, "refuse"]

	assert not differences([(spec, command, dict(bare, REFUSED=spec), command, dict(settings, REFUSED=spec)) for spec in LATER])


def test_a_program_runs_the_same_in_a_sandbox_without_threads(run, env, bare, compile_c, refusing, backend):
	"""Neither the program nor the worker gets a descriptor. The program sees only its own error."""
	program = compile_c(pathlib.Path(__file__).with_name("heap_faults.c"))
	wrapper = refusing("EAGAIN:clone,clone3")
	expected = run([*wrapper, program], bare)
	settings = env(**AWAKE)

	got = run([*wrapper, "/usr/bin/env", f"LD_PRELOAD={settings.pop('LD_PRELOAD')}", program], settings)

	assert "pthread_create: well" not in expected.stdout
	assert (got.returncode, got.stdout, got.stderr) == (expected.returncode, expected.stdout, "")


@pytest.mark.parametrize("error", ["ENOSYS", "EPERM", "EINVAL"])
def test_where_futexes_are_refused_nobody_spins(shim, error):
	"""The worker's sleep then returns at once. It must not spin: 1.5 s are 150 sleeps."""
	stage = sweep.Stage(shim.parent)
	case = dataclasses.replace(sweep.CASES["jemalloc"], words=["idle"], mtctl="")
	try:
		got = stage.run(case, f"sys_futex:1+={error}")
		assert not sweep.complaint(stage.run_bare(case), got)
		assert 20 < got.calls["sys_futex"] < 5000, got.calls
	finally:
		stage.close()


# ---- files ----

def mounted(options):
	"""Returns a wrapper that mounts a file system of its own in MT_DIR and runs a command."""
	return ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o {options} none "$MT_DIR" && exec "$0" "$@"']


@pytest.fixture
def own_tmpfs(run, bare, mt_dir):
	if run([*mounted("size=1m"), "/bin/true"], dict(bare, MT_DIR=str(mt_dir))).returncode != 0:
		pytest.skip("may not mount here")


@NEEDS_ROOT
@pytest.mark.parametrize("options", [
	"size=4k,mode=700", "size=8k,mode=700", "size=64k,mode=700", "size=1m,nr_inodes=1,mode=700", "size=1m,nr_inodes=2,mode=700",
	"ro,mode=700", "size=1m,mode=755"])
def test_a_full_or_foreign_dev_shm(run, env, bare, phases, own_tmpfs, options, backend):
	same(run, env, bare, phases, wrapper=mounted(options), expected_wrapper=(), most=1)


@NEEDS_ROOT
def test_records_that_found_no_room_are_written_when_there_is_some(env, puppet, own_tmpfs, mt_dir, wait_for):
	"""The stats file is sparse. On a file system that is full by now a record cannot be written."""
	settings = env(MIN_MB=0, BUDGET_PCT=0, PRESSURE=0)
	actor = puppet(settings, wrapper=mounted("size=1m,mode=700"))
	seen = pathlib.Path(f"/proc/{actor.pid}/root{mt_dir}")
	wait_for(lambda: list(seen.glob("*.stats")), what="a stats file")
	with open(seen / "filler", "wb", buffering=0) as filler, pytest.raises(OSError):
		while True:
			filler.write(bytes(4096))
	for _ in range(40):
		actor.number("call mt_trim 0")
	lost = 40 - len(stats_raw.records(seen, actor.pid))
	(seen / "filler").unlink()

	actor.number("call mt_trim 0")

	assert lost > 0
	assert [record["number"] for record in stats_raw.records(seen, actor.pid)] == list(range(1, 42))


def test_a_program_without_a_free_descriptor_leaves_no_files(run, env, mt_dir, phases, backend):
	"""The check before a removal must not need a descriptor."""
	got = run([phases, "fds"], env(**AWAKE))

	assert got.returncode == 5 and list(mt_dir.iterdir()) == [], got.stderr


def test_a_program_without_a_free_descriptor(run, env, bare, phases, backend):
	same(run, env, bare, phases, "fds")


# ---- the main thread leaves ----

HIDDEN_PROC = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"']


@NEEDS_ROOT
def test_without_proc_the_threads_that_main_left_are_not_cut_short(run, env, bare, phases, backend):
	"""Other threads cannot be counted there. The shim took that for none, and ended the process while threads ran."""
	if run([*HIDDEN_PROC, "/bin/true"], bare).returncode != 0:
		pytest.skip("may not hide /proc here")

	got = same(run, env, bare, phases, "leave", wrapper=HIDDEN_PROC)

	assert got.stdout.endswith("the last thread: 0 odd\n")


def test_without_a_descriptor_the_threads_that_main_left_are_not_cut_short(run, env, bare, phases, backend):
	got = same(run, env, bare, phases, "fds", "leave")

	assert got.stdout.endswith("the last thread: 0 odd\n")


def test_where_no_thread_can_wait_for_the_last_one_the_process_still_ends(shim):
	"""The second pthread_create of the shim is refused. The first was the worker, which kept the process alive for ever."""
	stage = sweep.Stage(shim.parent)
	case = sweep.CASES["leave"]
	try:
		got = stage.run(case, "pthread_create:2+=EAGAIN")
		assert not sweep.complaint(stage.run_bare(case), got)
		assert got.faults["pthread_create"] >= 1, got.calls
	finally:
		stage.close()


@pytest.mark.parametrize("other", ["libtcmalloc_minimal.so.4", "libjemalloc.so.2"])
def test_over_another_allocator_a_process_ends_with_its_last_thread(run, env, bare, phases, other):
	"""Threads cannot be counted there, so the end of the main thread was not noticed."""
	settings = env(**AWAKE)
	settings["LD_PRELOAD"] += f" {other}"

	got = run([phases, "leave"], settings, timeout=20)

	assert (got.returncode, got.stdout) == (0, run([phases, "leave"], bare).stdout), got.stderr


# ---- address space ----

def born_into(run, environment, kb):
	done = run(["/bin/bash", "-c", f"ulimit -v {kb}; /bin/ls / >/dev/null 2>&1; echo $?"], environment)
	return done.stdout


@pytest.mark.parametrize("kb", [9000, 10000, 12000, 14000, 16000, 18000, 24000, 32000])
def test_a_program_born_into_hardly_any_address_space(run, env, bare, backend, kb):
	"""Where jemalloc cannot start, libc's heap serves. (With less memory the library itself cannot be loaded.)"""
	settings = env(**AWAKE)
	# bash itself must not be under the shim: it is the child that has the limit.
	library = settings.pop("LD_PRELOAD")
	command = f"ulimit -v {kb}; LD_PRELOAD={library} /bin/ls / >/dev/null 2>&1; echo $?"

	got = run(["/bin/bash", "-c", command], settings)

	assert got.stdout == born_into(run, bare, kb), got.stderr


SMALL_STACKS = pathlib.Path(__file__).with_name("small_stacks.c")


@pytest.mark.parametrize("kb", [0, 64, 128, 256, 512, 1024, 2048, 4096])
def test_a_thread_begins_where_there_is_no_address_space(run, env, compile_c, backend, kb):
	"""Its stack is mapped before. jemalloc then got no memory for the thread, which crashed at its first call."""
	got = run([compile_c(SMALL_STACKS), kb], env())

	assert got.returncode == 0, f"{got.returncode}: {got.stdout}{got.stderr}"
	assert re.fullmatch(r"4 threads, \d+ given, \d+ refused, 0 odd\n", got.stdout)


@pytest.mark.skipif(not shutil.which("setarch"), reason="no setarch")
@pytest.mark.parametrize("room_kb", [512, 2048])
def test_a_thread_begins_there_wherever_the_kernel_has_put_the_reserve(run, env, compile_c, bare, room_kb):
	"""One start in a hundred the reserve, or what the kernel still gave, lay in a region for which jemalloc had no leaf in its
	tree of addresses, nor room for one: the thread crashed. Without random addresses the limit of the stack says where mappings
	begin."""
	threads = compile_c(SMALL_STACKS)
	if run(["setarch", "-R", "true"], bare).returncode:
		pytest.skip("the kernel may not be told to leave addresses alone")
	settings = env()
	library = settings.pop("LD_PRELOAD")
	command = f"ulimit -s $0 || exit 99; LD_PRELOAD={library} exec setarch -R {threads} {room_kb}"

	ends = {mb: run(["/bin/bash", "-c", command, mb * 1024], settings).returncode for mb in range(980, 1026, 2)}

	if set(ends.values()) == {99}:
		pytest.skip("the stack may not be that large here")
	assert set(ends.values()) == {0}, ends


# ---- before anybody is ready ----

@NEEDS_ROOT
def test_dlsym_before_our_relocation_without_proc(run, env, bare, compile_c):
	"""No wrapper can reach these system calls, so the files that they read are removed."""
	if run([*HIDDEN_PROC, "/bin/true"], bare).returncode != 0:
		pytest.skip("may not hide /proc here")
	library = compile_c("lookup_early.c", "-DLIBRARY", "-shared", "-fPIC")
	program = compile_c("lookup_early.c", library, f"-Wl,-rpath,{library.parent}")
	settings = env()
	preload = settings.pop("LD_PRELOAD")

	got = run([*HIDDEN_PROC, "/usr/bin/env", f"LD_PRELOAD={preload}", program], settings)

	assert got.returncode == 0 and re.fullmatch(r"library \d, program \d, preinit \d\n", got.stdout), got.stderr


def test_no_setting_makes_a_sandbox_kill(run, env, bare, phases, refusing):
	"""All refusals at once, with all features on that are off by default."""
	spec = "EPERM:madvise,close_range,futex/5,sched_getaffinity,getrusage,sysinfo,process_vm_readv,socket,statfs,fstatfs,prctl"
	same(run, env, bare, phases, wrapper=refusing(spec), PROF="on", GC_ROUNDS="auto", ROUND="timer:1", EXIT_CLEANUP=1,
	     RSS_LIMIT_MB=4000, FRAMEWORK_DECAY_MS=500)
