"""Python's ways to start child processes, and to call libc's malloc and free."""
import pytest

PYTHON = "/usr/bin/python3"
MULTIPROCESSING = r'''
import hashlib, multiprocessing as mp, sys, time
from multiprocessing import shared_memory

held = [{"id": i, "tags": [i]} for i in range(2_000)]

def work(n):
    made = [str(k) * 3 for k in range(n * 200)]
    return hashlib.sha256("".join(made).encode()).hexdigest()[:6], held[n]["tags"]

def fill(name, start, size):
    block = shared_memory.SharedMemory(name=name)
    block.buf[start:start + size] = bytes([start % 251]) * size
    block.close()

def answer(requests, answers):
    while (text := requests.get()) is not None:
        answers.put(text * 3000)

def fail(n):
    made = [bytes(1000) for _ in range(2000)]
    sys.exit(n)

if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    with context.Pool(2, maxtasksperchild=6) as pool:
        print(pool.map(work, range(12), chunksize=1), sum(1 for _ in pool.imap_unordered(work, range(4))))
    requests, answers = context.Queue(), context.Queue()
    children = [context.Process(target=answer, args=(requests, answers)) for _ in range(2)]
    for child in children: child.start()
    for n in range(20): requests.put(f"text {n}")
    print(sorted(hashlib.sha256(answers.get().encode()).hexdigest()[:6] for _ in range(20)))
    for child in children: requests.put(None)
    for child in children: child.join()
    block = shared_memory.SharedMemory(create=True, size=3_000_000)
    fillers = [context.Process(target=fill, args=(block.name, n * 1_000_000, 1_000_000)) for n in range(3)]
    fillers += [context.Process(target=fail, args=(7,)), context.Process(target=time.sleep, args=(60,))]
    for child in fillers: child.start()
    fillers[-1].kill()
    for child in fillers: child.join()
    print([child.exitcode for child in children + fillers], hashlib.sha256(block.buf).hexdigest()[:8])
    block.close(); block.unlink()
    print("done", flush=True)
    sys.stdin.read()
'''


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_says_the_same_and_leaves_nothing_of_its_children(spawn, run, bare, env, mt_dir, wait_for,
                                                                           files_of_the_dead, tmp_path, method):
	program = tmp_path / "program.py"
	program.write_text(MULTIPROCESSING)
	expected = run([PYTHON, program, method], bare)
	assert expected.stdout.endswith("done\n"), expected.stderr

	for backend in ("jemalloc", "system"):
		with open(tmp_path / "said", "w", encoding="ascii") as said:
			process = spawn([PYTHON, program, method], env(MIN_MB=0, ALLOCATOR=backend), stdout=said)
		wait_for(lambda: process.poll() is not None or (tmp_path / "said").read_text().endswith("done\n"), 60, "the end of its work")
		assert (tmp_path / "said").read_text() == expected.stdout, process.poll()
		# The parent lives and is at rest.
		wait_for(lambda: not files_of_the_dead(mt_dir), 6, "no files of children that have ended")
		process.stdin.close()
		assert (process.wait(timeout=20), process.stderr.read()) == (0, expected.stderr)
		wait_for(lambda: not any(mt_dir.iterdir()), 6, "no files at all")


CTYPES = r'''
import ctypes, sys
libraries = [ctypes.CDLL("libc.so.6"), ctypes.CDLL(None)]
for libc in libraries:
    for name in ("malloc", "calloc", "realloc", "strdup", "memalign", "aligned_alloc"):
        getattr(libc, name).restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    libc.free.restype = None
    libc.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.malloc_usable_size.argtypes = [ctypes.c_void_p]
    libc.getline.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
made = 0
# What one handle has made, each of them takes back.
for maker in libraries:
    for taker in libraries:
        for n in range(300):
            blocks = [maker.malloc(10 + n * 37), maker.calloc(3, 10 + n), maker.strdup(b"text " * n), maker.memalign(64, n + 1),
                      maker.aligned_alloc(32, 64 + 32 * n)]
            assert all(blocks) and taker.malloc_usable_size(blocks[0]) >= 10 + n * 37
            assert ctypes.string_at(blocks[2]) == b"text " * n
            blocks[0] = taker.realloc(blocks[0], 5000 + n)
            for block in blocks:
                taker.free(block)
            made += len(blocks)
# A function of libc that allocates for its caller.
text = ctypes.c_void_p()
assert libraries[0].asprintf(ctypes.byref(text), b"%d of libc's", 42) == 12
assert ctypes.string_at(text.value) == b"42 of libc's"
libraries[0].free(text)
print(made)
'''
CFFI = r'''
import cffi
ffi = cffi.FFI()
ffi.cdef("void *malloc(size_t); void free(void *); char *strdup(const char *); void *realloc(void *, size_t);")
for libc in (ffi.dlopen(None), ffi.dlopen("libc.so.6")):
    for n in range(500):
        block = libc.realloc(libc.malloc(10 + n), 3000)
        libc.free(block)
        copy = libc.strdup(b"a copy")
        assert ffi.string(copy) == b"a copy"
        libc.free(copy)
    kept = ffi.gc(libc.malloc(100), libc.free)
    del kept
print("done")
'''


@pytest.mark.parametrize("name, program", [("ctypes", CTYPES), ("cffi", CFFI)], ids=["ctypes", "cffi"])
def test_python_calls_malloc_and_free_of_libc(run, bare, env, backend, name, program):
	expected = run([PYTHON, "-c", program], bare)
	if "ModuleNotFoundError" in expected.stderr:
		pytest.skip(f"{name} is not installed")
	assert expected.returncode == 0, expected.stderr

	for settings in (env(), env(MIN_MB=0)):
		got = run([PYTHON, "-c", program], settings)
		assert (got.returncode, got.stdout, got.stderr) == (0, expected.stdout, ""), got.stderr


FORKS = r'''
import multiprocessing, os, subprocess, sys
data = [bytes(3000) for _ in range(20_000)]
pid = os.fork()
if pid == 0:
    os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
pid, terminal = os.forkpty()
if pid == 0:
    os._exit(4)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
child = multiprocessing.get_context("fork").Process(target=sys.exit, args=(5,))
child.start(); child.join(); print(child.exitcode)
print(subprocess.run(["sh", "-c", "exit 6"], preexec_fn=lambda: None).returncode)
'''


def test_a_python_program_of_one_thread_is_not_warned_of_its_fork(run, bare, env, backend, tmp_path):
	"""From Python 3.12 on a fork beside other threads is warned of; here warnings are errors."""
	program = tmp_path / "program.py"
	program.write_text(FORKS)
	expected = run([PYTHON, "-W", "error", program], bare)
	assert (expected.returncode, expected.stdout) == (0, "3\n4\n5\n6\n"), expected.stderr

	got = run([PYTHON, "-W", "error", program], env(MIN_MB=0))

	assert (got.returncode, got.stdout, got.stderr) == (0, expected.stdout, expected.stderr)
