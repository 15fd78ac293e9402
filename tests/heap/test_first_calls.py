"""The first call of a process into the heap, each of the family in turn, where there is hardly a process yet."""
import signal

import pytest

CALLS = ["malloc", "calloc", "realloc", "reallocarray", "memalign", "aligned_alloc", "posix_memalign", "valloc", "pvalloc",
         "free", "malloc_usable_size", "malloc_trim", "strdup", "large", "many"]


@pytest.fixture
def all_go_well(run, env, backend):
	"""all_go_well(program, place, **more): each call, the first of a process, awake from its first byte on and not."""
	def check(program, place, calls=CALLS, **more):
		for settings in (env(MIN_MB=0), env()):
			for call in calls:
				got = run([program, place, call], dict(settings, **more))
				assert (got.returncode, got.stdout, got.stderr) == (0, f"{call} well\n", ""), (place, call)
	return check


@pytest.mark.parametrize("place", ["main", "constructor", "preinit"])
def test_any_call_may_be_the_first_of_a_process(all_go_well, compile_c, place):
	"""In preinit there is no environment yet to read settings from, and no end to what may be asked for."""
	all_go_well(compile_c("first_call.c"), place)


def test_the_first_call_comes_where_a_loader_was_called_by_name(run, env, compile_c, backend):
	"""It moves arguments and environment on the stack, by which the latter is found in preinit."""
	got = run(["/lib64/ld-linux-x86-64.so.2", compile_c("first_call.c"), "preinit", "many"], env(MIN_MB=0))

	assert (got.returncode, got.stdout, got.stderr) == (0, "many well\n", "")


@pytest.mark.parametrize("flags", [[], ["-Wl,-z,now"]], ids=["lazy", "now"])
@pytest.mark.parametrize("call", ["malloc", "calloc", "realloc", "free", "large"])
def test_any_call_may_be_the_first_in_an_ifunc_resolver_of_the_program(all_go_well, compile_c, run, bare, call, flags):
	program = compile_c("first_call.c", f'-DRESOLVER="{call}"', *flags)
	if run([program, "resolver", call], bare).returncode == -signal.SIGSEGV:
		pytest.skip("this libc's own malloc crashes in a resolver (glibc 2.43)")
	all_go_well(program, "resolver", calls=[call])


@pytest.mark.parametrize("how", ["linked", "before", "behind"])
def test_any_call_may_be_the_first_in_a_librarys_constructor(all_go_well, compile_c, shim, how):
	library = compile_c("first_call.c", "-shared", "-fPIC", "-DLIBRARY")
	if how == "linked":
		all_go_well(compile_c("first_call.c", "-Wl,--no-as-needed", library), "library")
	else:
		all_go_well(compile_c("first_call.c"), "library",
		            LD_PRELOAD=f"{library}:{shim}" if how == "before" else f"{shim}:{library}")


@pytest.mark.parametrize("count", [0, 20, 40])
def test_threads_end_well_where_the_keys_inside_a_thread_are_all_taken(run, env, compile_c, tmp_path, count):
	"""A value of any other key may be refused: jemalloc would not hear of a thread's end, and so does not begin."""
	got = run([compile_c("keys_taken.c"), str(count)],
	          env(MIN_MB=0, ALLOCATOR="jemalloc", LOG=tmp_path / "log", LOG_LEVEL="info"))

	assert (got.returncode, got.stdout, got.stderr) == (0, "160 threads\n", "")
	assert (": jemalloc (" in (tmp_path / "log").read_text()) == (count < 32)


@pytest.mark.parametrize("taken, settings", [(2, {}), (2, {"MIN_MB": 0}), (1, {"ALLOCATOR": "system"}), (0, {"ENABLE": 0})])
def test_a_program_may_create_all_thread_keys_but_two(run, env, bare, compile_c, taken, settings):
	program = compile_c("count_keys.c")

	assert int(run([program], env(**settings)).stdout) == int(run([program], bare).stdout) - taken
