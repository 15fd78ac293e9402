"""Collections that a thread asks for of which Python knows nothing: the one pending call there may be is given back in the end,
whatever became of who asked. Without a worker, which would clear up behind them."""

PYTHON = "/usr/bin/python3"
NO_REAPER = {"MIN_MB": 100000}

# A thread of C's own, whose start routine is mt_trim and whose argument is its level: a light cleanup.
TRIM_ELSEWHERE = r'''
import ctypes, gc, os, time
libc = ctypes.CDLL(None)
gc.set_threshold(10 ** 9)
collections = []
gc.callbacks.append(lambda phase, info: collections.append(phase) if phase == "stop" else None)
def trim_elsewhere():
    thread = ctypes.c_ulong()
    assert libc.pthread_create(ctypes.byref(thread), None, libc.mt_trim, ctypes.c_void_p(1)) == 0
    libc.pthread_detach(thread)
def is_collected():
    end = time.monotonic() + 5
    while not collections and time.monotonic() < end:
        time.sleep(0.01)  # CPython 3.11 looks for pending calls of other threads where it takes its lock again
    return bool(collections)
'''

COME_LATE = TRIM_ELSEWHERE + r'''
trim_elsewhere()
time.sleep(2.8)  # in C: the pending call has to wait, and who asked gives up
late = is_collected()
collections.clear()
trim_elsewhere()
print(late, is_collected())
'''

FORK_IN_FINALIZER = TRIM_ELSEWHERE + r'''
parent = os.getpid()
class Forks:
    def __del__(self):
        global child
        child = os.fork()
one = Forks()
one.itself = one
del one
trim_elsewhere()
assert is_collected()
if child == 0:
    collections.clear()
    while os.getppid() == parent:  # while both live they share memory, and nothing is collected
        time.sleep(0.01)
    trim_elsewhere()
    print("child", 0 if is_collected() else 1, flush=True)
os._exit(0)
'''


def test_one_that_comes_too_late_is_not_the_last(run, env):
	"""Nobody took the answer that nobody waited for any more, and no later cleanup collected."""
	got = run([PYTHON, "-c", COME_LATE], env(**NO_REAPER), timeout=30)

	assert got.stdout == "True True\n", got.stderr


def test_a_finalizer_that_forks_leaves_a_child_that_can_collect(run, env):
	"""The collection goes on in the child, and told the child's next one that it was done."""
	got = run([PYTHON, "-c", FORK_IN_FINALIZER], env(**NO_REAPER), timeout=30)

	assert got.stdout == "child 0\n", got.stderr
