"""The library calls libc's own functions, whoever else defines one of their names, as libc does."""
import subprocess

import pytest

from pressed import PYTHON

# jemalloc's own background threads, which do not run here, call gettimeofday, and libc selects it by the machine.
LEFT_OUT = ("_", "str", "mem", "gettimeofday")


# What own_names.c itself calls, and what decides who allocates.
OF_THE_HEAP = ("syscall", "malloc", "free", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign", "cfree", "cu", "mt_", "MTSHIM")
VARIABLES = ("environ", "stderr", "program_invocation_short_name")


def names_of(shim, which):
	listed = subprocess.run(["nm", "-D", which, "--format=posix", shim], capture_output=True, text=True, check=True).stdout
	return {line.split()[0].partition("@")[0] for line in listed.splitlines()}


def called_names(shim):
	wrapped = {name for name in names_of(shim, "--defined-only") if not name.startswith(OF_THE_HEAP)}
	names = wrapped | names_of(shim, "--undefined-only")
	return sorted(name for name in names if not name.startswith(LEFT_OUT) and name not in VARIABLES)


@pytest.fixture(scope="module")
def names(shim, tmp_path_factory):
	"""A file to include, and the number of names in it."""
	file, found = tmp_path_factory.mktemp("names") / "names.h", called_names(shim)
	file.write_text("#define NAMES " + " ".join(f"X({name})" for name in found) + "\n")
	return file, len(found)


@pytest.mark.parametrize("settings", [{}, {"MIN_MB": 0, "TICK_MS": 10, "IDLE_MS": 10, "SLACK_MB": 0, "SLACK_PCT": 0}, {"ENABLE": 0}],
                         ids=["default", "busy", "off"])
def test_a_program_may_have_functions_of_its_own_by_names_of_posix(run, env, bare, compile_c, names, settings):
	"""ISO C leaves unlink, mkdir, getrusage and the like to it, also getenv and madvise, which the library wraps. The library called
	them, and the program died."""
	program = [compile_c("own_names.c", "-include", names[0])]

	assert names[1] > 110
	assert run(program, bare).stdout == "well\n"
	done = run(program, env(**settings))
	assert (done.returncode, done.stdout, done.stderr) == (0, "well\n", "")


@pytest.mark.parametrize("order", ["before", "behind"])
def test_a_tool_that_wraps_the_calls_for_mappings_may_allocate_in_them(run, env, compile_c, shim, order):
	"""jemalloc's mappings passed through it, and its malloc came back into jemalloc: an abort, or a lock that never opened."""
	tool = compile_c("mapping_tool.c", "-shared", "-fPIC")
	both = dict(env(), LD_PRELOAD=f"{tool}:{shim}" if order == "before" else f"{shim}:{tool}")

	done = run([PYTHON, "-c", "held = [bytes(5000) for _ in range(8000)]; print(len(held))"], both)
	assert (done.returncode, done.stdout) == (0, "8000\n"), done.stderr
