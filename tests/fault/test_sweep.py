"""Each call of the shim and its jemalloc to libc and the kernel fails, once and for ever. The program's result is the same as without the
shim. The harness is sweep.py; fault.mk links its shim."""
import json
import pathlib
import re
import subprocess

import pytest

import sweep

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def stage(shim):
	one = sweep.Stage(shim.parent)
	if not one.program("libmtshim.so").exists():
		pytest.fail("the shim for fault sweeps is not built: make fault-shim", pytrace=False)
	yield one
	one.close()


def expect_clean(stage, case, quick):
	table = sweep.sweep(stage, sweep.CASES[case], quick)
	record = stage.build / "tests" / "faults" / f"{case}-{'quick' if quick else 'full'}.json"
	record.write_text(json.dumps({name: vars(tally) for name, tally in table.items()}, indent=1) + "\n")
	failures = [failure for tally in table.values() for failure in tally.failures]
	injected = sum(tally.injected for tally in table.values())
	assert not failures, f"{len(failures)} runs went wrong:\n" + "\n".join(failures[:10])
	assert injected == sum(tally.survived for tally in table.values()) > 20, table
	return table


@pytest.mark.parametrize("case", sweep.CASES)
def test_each_call_fails_once(stage, case):
	table = expect_clean(stage, case, quick=True)

	# A control of the harness: the calls do pass through it.
	needed = {
		"jemalloc": "mmap sys_madvise sys_openat sys_pwrite64 sys_futex pthread_create", "system": "next_malloc sys_openat",
		"profiler": "process_vm_readv dlopen rename", "leave": "pthread_create", "cuda": "mmap pthread_create"}
	for name in needed[case].split():
		assert name in table and table[name].injected, f"{name}: {table.get(name)}"


@pytest.mark.long
@pytest.mark.parametrize("case", sweep.CASES)
def test_each_call_fails_once_with_each_error(stage, case):
	expect_clean(stage, case, quick=False)


# ---- for good, for a while, now and then ----

STORMS = """
	mmap:/3=ENOMEM mmap:1+=ENOMEM mmap:4-60=ENOMEM munmap:1+=ENOMEM mprotect:1+=ENOMEM
	sys_madvise:1+=EINVAL sys_madvise:/2=EAGAIN mremap:1+=EINVAL mremap:2+=ENOMEM mremap:/2=ENOMEM mremap:/3=EFAULT
	sys_openat:1+=EMFILE sys_openat:1+=EPERM sys_openat:/2=EACCES sys_openat:10+=ENFILE sys_open:1+=EACCES open:1+=EMFILE
	sys_read:1+=EIO sys_read:/2=END sys_read:/3=HALF sys_pread64:1+=EIO sys_pread64:/2=END
	sys_write:1+=EAGAIN sys_pwrite64:1+=ENOSPC sys_pwrite64:/2=HALF sys_pwrite64:/3=ENOSPC ftruncate:1+=ENOSPC
	sys_fstat:1+=EIO sys_newfstatat:1+=EACCES mkdir:1+=EROFS unlink:1+=EACCES
	sys_futex:1+=ENOSYS sys_futex:1+=EPERM sys_futex:/2=EINTR sys_futex:/3=EAGAIN sys_futex:20+=ENOMEM
	sys_close_range:1+=ENOSYS sys_close_range:1+=EPERM sys_ppoll:1+=ENOSYS sys_ppoll:1+=ENOMEM
	pthread_create:1+=EAGAIN pthread_create:1-3=EAGAIN pthread_attr_init:1+=ENOMEM pthread_key_create:1+=EAGAIN
	pthread_key_create:2+=EAGAIN __register_atfork:1+=ENOMEM
	pthread_sigmask:1+=EPERM sys_rt_sigprocmask:1+=EPERM
	getrusage:1+=EPERM sysinfo:1+=ENOSYS sched_getaffinity:1+=EPERM
	sysconf:1+=EINVAL prctl:1+=EINVAL
	mt_loader_symbol:1+ dlopen:1+=ENOMEM dladdr:1+
	next_malloc:/50=ENOMEM next_malloc:100-300=ENOMEM
	sys_gettid:1+=ENOSYS sys_gettid:2+=ENOSYS sys_gettid:/2=ENOSYS sys_gettid:/3=ENOSYS
	*:/3 *:/5 *:/7 *:/11 *:/23
	""".split()


@pytest.mark.parametrize("name", ["jemalloc", "system", "leave"])
def test_storms_of_refused_calls_change_no_result(stage, name):
	"""Calls are refused from the Nth on, for a while, or every Nth time. No log file is set, so all lines go to stderr."""
	case = sweep.CASES[name]
	expected = stage.run_bare(case)
	failures = []

	def one(fault):
		return fault, stage.run(case, fault, MT_LOG=None, MT_LOG_LEVEL=None, MT_CGROUP=str(stage.calm))

	with sweep.concurrent.futures.ThreadPoolExecutor(6) as pool:
		for fault, got in pool.map(one, STORMS):
			wrong = sweep.complaint(expected, got)
			if wrong:
				failures.append(f"{name}: {fault}: {wrong}")
	assert not failures, "\n".join(failures)


@pytest.mark.parametrize("number", [2, 5, 8, 12, 20, 40])
def test_where_there_is_no_memory_ever_again_the_answer_is_an_honest_one(stage, number):
	"""From the Nth mapping on jemalloc gets no more. The program gets ENOMEM for memory that it cannot have."""
	case = sweep.CASES["jemalloc"]
	expected = stage.run_bare(case)

	got = stage.run(case, f"mmap:{number}+=ENOMEM")

	if got.status == 9:
		assert re.search(r"^\w+: refused for ever, 0 odd$", got.out, re.MULTILINE), got.out + got.err
	else:
		assert not sweep.complaint(expected, got)


def test_where_jemalloc_cannot_begin_libcs_heap_serves(stage):
	"""Every mapping is refused, from the first on."""
	case = sweep.CASES["jemalloc"]

	got = stage.run(case, "mmap:1+=ENOMEM")

	assert not sweep.complaint(stage.run_bare(case), got)
	assert got.faults["mmap"] >= 2 and got.calls["next_malloc"] > 1000, got.calls


@pytest.mark.parametrize("run", range(4))
def test_what_stdout_holds_is_written_where_no_thread_can_wait_for_the_last(stage, run):
	"""Of every two calls one fails: the thread that waits cannot be had, and the worker hears late that it must go. Were it
	the process's last, libc would have it write what stdout holds, and it has no descriptors."""
	case = sweep.CASES["leave"]

	got = stage.run(case, "*:/2", MT_LOG=None, MT_LOG_LEVEL=None, MT_CGROUP=str(stage.calm))

	if got.status == 9:  # what the program wants was refused 400 times
		assert re.search(r"^\w+: refused for ever, 0 odd$", got.out, re.MULTILINE), got.out + got.err
	else:
		assert not sweep.complaint(stage.run_bare(case), got)


# ---- the harness itself ----

def test_a_refusal_that_the_program_must_see_is_seen(stage):
	"""Otherwise a sweep without findings would show nothing."""
	case = sweep.CASES["system"]

	got = stage.run(case, "next_malloc:1000+=ENOMEM,next_calloc:1+=ENOMEM")

	assert got.status == 9 and "refused for ever" in got.out


def test_a_fault_that_makes_no_sense_stops_the_program(stage):
	for fault in ("nothing:1", "mmap", "mmap:0", "mmap:1=EWHAT", "mmap:x"):
		assert stage.run(sweep.CASES["jemalloc"], fault).status == 120, fault


def words(*command):
	return set(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split())


def cannot_fail():
	lines = (ROOT / "tests" / "fault" / "cannot_fail.txt").read_text().splitlines()
	return {word for line in lines if not line.startswith("#") for word in line.split()}


def test_every_import_of_the_shim_is_swept_or_cannot_fail(shim):
	table = subprocess.run(["nm", "-D", "--undefined-only", shim], capture_output=True, text=True, check=True).stdout
	imports = {line.split()[-1].split("@")[0] for line in table.splitlines()}
	swept = words("gcc", "-E", "-P", "-x", "c", "tests/fault/inject_names.h")
	excused = cannot_fail()

	assert imports - swept - excused == set()
	assert not swept & excused
