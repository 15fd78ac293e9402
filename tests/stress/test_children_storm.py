"""Thousands of processes, where tests/compat starts hundreds. With `-s` each test prints its counts:

  python3 -m pytest -m 'long or not long' tests/stress/test_children_storm.py -s
"""
import time

import pytest

BUSY = {"MIN_MB": 0, "TICK_MS": 10, "IDLE_MS": 10, "SLACK_MB": 0, "SLACK_PCT": 0, "BUDGET_PCT": 100, "SETTLE_MS": 100}


@pytest.fixture
def storm(run, env, compile_c, backend):
	"""storm(program, words, what): runs it, expects success, and prints its counts."""
	def one(program, words, what, timeout=900, **settings):
		began = time.monotonic()
		got = run([compile_c(program), *words], env(**dict(BUSY, **settings)), timeout=timeout)
		assert (got.returncode, got.stderr) == (0, ""), got.stdout
		print(f"\n{what} ({backend}): {got.stdout.strip()}, {time.monotonic() - began:.1f} s", end="")
		return got.stdout
	return one


@pytest.mark.long
@pytest.mark.parametrize("way, number", [("fork", 3000), ("vfork", 3000), ("spawn", 3000), ("thread_of_the_parent", 20000)])
def test_thousands_of_children_come_back_well(storm, way, number):
	assert storm("children.c", [way, number], way) == f"{number} of {number}\n"


@pytest.mark.long
@pytest.mark.parametrize("way", ["_fork", "clone", "clone3"])
def test_thousands_of_children_past_forks_handlers_come_back_well(storm, way):
	assert storm("children.c", [way, 3000], way) == "3000 of 3000\n"


@pytest.mark.long
def test_thousands_of_execs_come_to_a_good_end(storm):
	assert storm("children.c", ["execs", 4000], "execs from four threads") == "4000 of 4000\n"


@pytest.mark.long
def test_a_program_execs_itself_a_thousand_times(storm, mt_dir):
	assert storm("children.c", ["renewed", 1000], "execs of itself") == "came to the end\n"
	assert list(mt_dir.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize("door", ["heap", "stats", "trim", "births", "environ"])
def test_no_lock_is_inherited_as_held_in_a_thousand_forks(storm, door):
	assert storm("fork_locks.c", [door, 1000], f"forks amid {door}") == "1000 of 1000 children\n"


@pytest.mark.long
def test_a_thousand_libraries_in_two_threads(storm, compile_c):
	plugin = compile_c("plugin.c", "-shared", "-fPIC")

	assert storm("libraries.c", ["threads", plugin, 2000], "dlopen and dlclose") == "4000 well\n"


@pytest.mark.long
def test_a_hundred_thousand_signals_are_handled(storm):
	assert storm("contexts.c", ["handlers", 100000], "signals whose handler allocates") == "100000 handled\n"
	assert storm("contexts.c", ["longjmp", 50000], "handlers left by longjmp") == "50000 handled\n"


@pytest.mark.long
@pytest.mark.parametrize("end, status", [("alive", 0), ("twice", 0), ("suddenly", 7), ("abort", -6)])
def test_hundreds_of_ends_amid_threads(run, env, compile_c, backend, end, status):
	began = time.monotonic()
	for _ in range(300):
		got = run([compile_c("ends.c"), end], env(**BUSY), timeout=30)
		assert (got.returncode, got.stderr) == (status, "")
	print(f"\nends by {end} ({backend}): 300, {time.monotonic() - began:.1f} s", end="")


def test_a_shells_thousand_commands_are_what_they_are_without(run, env, bare, backend):
	"""The children of a start script are small and asleep, and behave as without the shim."""
	script = 'for i in $(seq 1000); do /bin/true; echo $i; done | tail -1; ls / | wc -l'
	expected = run(["/bin/sh", "-c", script], bare, timeout=60)

	began = time.monotonic()
	got = run(["/bin/sh", "-c", script], env(), timeout=60)

	assert (got.returncode, got.stdout, got.stderr) == (0, expected.stdout, "")
	print(f"\ncommands of a shell ({backend}): 1000, {time.monotonic() - began:.1f} s", end="")
