"""Every way to a child, from a program in whose heap the worker is busy. Thousands: tests/stress/test_children_storm.py."""
import re

import pytest

BUSY = {"MIN_MB": 0, "TICK_MS": 10, "IDLE_MS": 10, "SLACK_MB": 0, "SLACK_PCT": 0, "BUDGET_PCT": 100, "SETTLE_MS": 100}


@pytest.fixture
def children(run, env, compile_c, backend):
	"""children(way, number): what the program said, its end being a good one."""
	def make(way, number, timeout=60, **settings):
		got = run([compile_c("children.c"), way, number], env(**dict(BUSY, **settings)), timeout)
		assert (got.returncode, got.stderr) == (0, ""), got.stdout
		return got.stdout
	return make


@pytest.mark.parametrize("way", ["fork", "vfork", "spawn", "thread_of_the_parent"])
def test_children_come_back_well(children, way):
	assert children(way, 150) == "150 of 150\n"


@pytest.mark.parametrize("way", ["_fork", "clone", "clone3"])
def test_children_past_forks_handlers_come_back_well(children, way):
	"""What the worker held at that moment stayed held in the child, or half done: one in five hundred hung or crashed."""
	assert children(way, 300) == "300 of 300\n"


@pytest.mark.parametrize("settings", [{}, {"ENABLE": 0}], ids=["on", "off"])
def test_a_child_past_forks_handlers_may_change_its_ids_whatever_the_loader_did(run, env, compile_c, settings):
	"""It looked for the function behind ours by dlsym, and so waited for a lock of the loader's that nobody held
	any more."""
	got = run([compile_c("ids_in_child.c"), 400], env(**settings), timeout=60)

	assert (got.returncode, got.stdout, got.stderr) == (0, "400 of 400\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("settings,forks", [({}, 200), ({"MIN_MB": 0}, 60)], ids=["asleep", "awake"])
def test_a_line_of_many_forks_of_forks(run, env, compile_c, backend, settings, forks):
	"""As many workers as processes, with the usual tick: BUSY ones would take all of the machine."""
	got = run([compile_c("children.c"), "line", forks], env(**settings), timeout=60)

	assert (got.returncode, got.stdout, got.stderr) == (0, f"{forks} of {forks}\n", "")


def test_a_tree_of_forks(children):
	"""127 processes, 64 at once."""
	assert children("tree", 6) == "all\n"


def test_execs_from_four_threads(children):
	assert children("execs", 400) == "400 of 400\n"


def test_a_program_that_execs_itself_again_and_again_keeps_no_file(children, mt_dir):
	assert children("renewed", 60) == "came to the end\n"
	assert list(mt_dir.iterdir()) == []


# The lock that each door leads to is named in fork_locks.c.
DOORS = ["heap", "stats", "trim", "births", "environ"]


@pytest.mark.parametrize("door", DOORS)
def test_a_child_inherits_no_lock_as_held(run, env, compile_c, backend, door):
	got = run([compile_c("fork_locks.c"), door, 60], env(**BUSY), timeout=60)

	assert (got.returncode, got.stdout, got.stderr) == (0, "60 of 60 children\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("door", ["blocks", "kinds", "captures", "releases", "first"])
def test_a_child_inherits_no_lock_of_the_pool_as_held(run, env, fakecuda, compile_c, door):
	"""Which lock is behind which door: cuda_fork_locks.c."""
	got = run([compile_c("cuda_fork_locks.c"), door, 60], fakecuda(env(MIN_MB=0)), timeout=60)

	assert (got.returncode, got.stdout) == (0, "60 of 60 children\n"), got.stderr


def test_a_child_inherits_no_gate_of_the_profiler_as_closed(run, env, compile_c):
	got = run([compile_c("fork_locks.c"), "profile", 60], env(**BUSY, ALLOCATOR="jemalloc", PROF="on"), timeout=60)

	assert re.fullmatch(r"60 of 60 children\n", got.stdout), got.stderr


@pytest.mark.parametrize("way", ["clone", "syscall"])
def test_a_child_whose_maker_sleeps_for_its_life_holds_up_no_cleanup(way, run, env, compile_c, backend):
	"""CLONE_VFORK without CLONE_VM: the purge lock was held for as long as the child lived."""
	got = run([compile_c("vfork_copy.c"), way], env(MIN_MB=0), timeout=20)
	said = re.fullmatch(r"(\d+) ms, the child ended with 5\n", got.stdout)

	assert said, (got.stdout, got.stderr)
	assert int(said[1]) < 1000


def test_a_bad_pointer_to_clone3_is_refused_as_by_the_kernel(run, bare, env, compile_c):
	program = compile_c("clone3_refused.c")
	got = run([program], env())

	assert (got.returncode, got.stdout) == (0, run([program], bare).stdout), got.stderr
