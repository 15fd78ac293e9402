"""libc's heap family asked by name: blocks of malloc by any road may be freed by any other, and who hooks malloc is left alone."""
import pytest

CTYPES = """
import ctypes
libc, program = ctypes.CDLL("libc.so.6"), ctypes.CDLL(None)
for library in (libc, program):
	library.malloc.restype = library.strdup.restype = library.realloc.restype = ctypes.c_void_p
	library.free.argtypes = [ctypes.c_void_p]
	library.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
for size in range(1, 3000, 7):
	program.free(libc.malloc(size))
	libc.free(program.malloc(size))
	libc.free(libc.strdup(b"text"))
	libc.free(libc.realloc(program.malloc(size), 2 * size))
print("well")
"""

TRIM = """
import ctypes
def anon():
	return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))
libc = ctypes.CDLL("libc.so.6")
blocks = [bytes([1 + number % 9]) * 4000 for number in range(20000)]
full, blocks[:-1] = anon(), []
libc.malloc_trim(0)
print(full > 70_000 and anon() < full - 60_000)
"""


def test_libcs_malloc_and_free_by_ctypes_mix_with_the_programs(run, env, backend):
	done = run(["/usr/bin/python3", "-c", CTYPES], env())

	assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr


def test_libcs_malloc_trim_by_ctypes_gives_back_the_heap_that_serves(run, env, backend):
	"""As dask's manual has it; in libc's own heap there is nothing."""
	done = run(["/usr/bin/python3", "-c", TRIM], env())

	assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_every_member_of_the_family_by_every_road_mixes_with_every_other(run, env, bare, compile_c, backend):
	program = compile_c("heap_by_name.c")
	expected = run([program, "mixes"], bare)
	assert expected.stdout == "456 well\n"

	done = run([program, "mixes"], env())

	assert (done.returncode, done.stdout) == (0, expected.stdout), done.stderr


@pytest.mark.parametrize("mode", ["namespace", "next"])
def test_another_libc_and_rtld_next_are_answered_as_without_us(run, env, bare, compile_c, backend, mode, shim):
	program = compile_c("heap_by_name.c")
	expected = run([program, mode], bare).stdout
	assert expected

	assert run([program, mode], env()).stdout == expected.replace("libc.so.6", shim.name)


def test_a_constructor_that_asks_libc_for_malloc_first_of_all_gets_the_heap_that_serves(run, env, compile_c, backend):
	library = compile_c("heap_by_name.c", "-shared", "-fPIC", "-DLIBRARY")
	program = compile_c("heap_by_name.c", "-DEARLY", library)

	done = run([program, "early"], env())

	assert (done.returncode, done.stdout) == (0, "1 well\n"), done.stderr


COMMANDS = [["/bin/ls", "/"], ["/usr/bin/sort", "/etc/passwd"],
            ["/usr/bin/python3", "-c", "print(sum(len(str(i)) for i in range(100000)))"]]


@pytest.mark.parametrize("order", ["before", "behind"])
@pytest.mark.parametrize("by", [1, 2, 3], ids=["rtld_next", "libcs_handle", "second_names"])
def test_a_malloc_wrapper_works_before_and_behind_us(run, env, bare, shim, compile_c, backend, by, order):
	wrapper = compile_c("malloc_wrapper.c", "-shared", "-fPIC", f"-DBY={by}")
	chain = f"{wrapper}:{shim}" if order == "before" else f"{shim}:{wrapper}"

	for command in COMMANDS:
		done = run(command, dict(env(), LD_PRELOAD=chain), timeout=20)
		assert (done.returncode, done.stdout) == (0, run(command, bare).stdout), done.stderr
	# Of Python alone, since the others have closed stderr by then. Behind us the embedded jemalloc passes it by.
	assert done.stderr == ("wrapper: none\n" if order == "behind" and backend == "jemalloc" else "wrapper: some\n")
