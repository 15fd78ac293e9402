"""A small process has no thread and no file; a large one gets its worker wherever it happens to grow."""
import os
import pathlib
import shutil

import pytest


@pytest.mark.parametrize("command", [["/bin/true"], ["/bin/ls", "/usr/bin"], ["/bin/sh", "-c", "ls / | wc -l"],
                                     ["/bin/sh", "-c", "for i in 1 2 3 4 5; do /bin/true; done"]],
                         ids=["true", "ls", "pipe", "loop"])
def test_small_programs_leave_nothing_behind(run, env, bare, mt_dir, command, backend):
	got = run(command, env())

	assert (got.returncode, got.stdout, got.stderr) == (0, run(command, bare).stdout, "")
	assert list(mt_dir.iterdir()) == []


def test_small_programs_have_one_thread_and_no_file(run, env, spawn, mt_dir, backend, wait_for):
	"""cat waits for its input: a process that lives long and stays small."""
	process = spawn(["/bin/cat"], env())
	process.stdin.write("hello\n")
	process.stdin.flush()
	assert process.stdout.readline() == "hello\n"

	with open(f"/proc/{process.pid}/maps") as maps:
		assert "libmtshim.so" in maps.read()
	with open(f"/proc/{process.pid}/status") as status:
		assert "Threads:\t1\n" in status.read()
	assert list(mt_dir.iterdir()) == []
	process.stdin.close()
	assert process.wait(timeout=10) == 0


def test_many_threads_alone_do_not_wake_it(puppet, env, mt_dir, backend):
	"""Mapped bytes mislead: only resident anonymous memory counts."""
	actor = puppet(env())
	actor.tell("alloc 100 1000 1000")

	assert actor.number("status Threads:") == 1
	assert list(mt_dir.iterdir()) == []


def test_growth_past_the_threshold_wakes_it(puppet, env, mt_dir, wait_for, backend):
	actor = puppet(env())
	actor.tell("alloc 30000 2000 2000")
	actor.tell("churn 100")

	wait_for(lambda: actor.number("status Threads:") == 2, 10, "a worker at 60 MB")
	wait_for(lambda: len(list(mt_dir.iterdir())) == 2, 10, "a stats and a control file")
	for file in mt_dir.iterdir():
		assert file.name.startswith(f"{actor.pid}-") and file.stat().st_mode & 0o777 == 0o600


def test_a_process_of_large_arrays_and_a_small_heap_gets_its_worker(run, env, compile_c, backend):
	"""Its heap never grows after the beginning, of which nobody was told any more: no one looked at it."""
	got = run([compile_c("large_arrays.c")], env(), timeout=30)

	assert (got.returncode, got.stdout, got.stderr) == (0, "2 threads\n", "")


def test_files_go_when_the_process_ends(puppet, env, mt_dir, wait_for):
	actor = puppet(env(MIN_MB=0))
	actor.tell("alloc 1000 2000 2000")
	wait_for(lambda: len(list(mt_dir.iterdir())) == 2)

	assert actor.end()[0] == 0

	assert list(mt_dir.iterdir()) == []


def test_files_go_when_another_program_takes_over(run, env, mt_dir, backend):
	"""exec keeps pid and start time, and so the name of the files; what comes after it is too small to make any of its own."""
	program = ("import os, sys, time\n"
	           "kept = [bytes(2000) for i in range(30000)]\n"
	           "while len(os.listdir(sys.argv[1])) < 2: kept.append(bytes(2000)); time.sleep(0.001)\n"
	           "os.execv('/bin/echo', ['echo', 'here'])")

	got = run(["/usr/bin/python3", "-c", program, mt_dir], env(), timeout=30)

	assert (got.returncode, got.stdout, got.stderr) == (0, "here\n", "")
	assert list(mt_dir.iterdir()) == []


@pytest.mark.parametrize("settings", [{}, {"MIN_MB": 0}], ids=["threshold", "first-malloc"])
@pytest.mark.parametrize("place", ["dlopen", "key", "thread", "atexit", "forked"])
def test_the_worker_starts_in_awkward_places(run, env, compile_c, backend, place, settings):
	plugin = compile_c("late_plugin.c", "-shared", "-fPIC")

	got = run([compile_c("late_places.c"), place, plugin], env(**settings), timeout=30)

	assert (got.returncode, got.stderr) == (0, "")
	if place == "forked":
		parent = 2 if settings else 1
		assert got.stdout == f"child: 2 threads\nparent: {parent} threads\n"
	else:
		assert got.stdout == f"{place}: 2 threads\n"


@pytest.mark.parametrize("thread", ["main", "other"])
def test_a_child_that_grows_into_what_it_inherited_gets_a_worker(run, env, backend, thread):
	"""Free heap of the parent serves it: the kernel is never asked for memory, by which growth is noticed otherwise. The
	worker is one thread more."""
	program = ("import os, sys, threading\n"
	           "kept = [bytes(2000) for i in range(50000)]\n"
	           "del kept\n"
	           "def grow():\n"
	           "\tkept = []\n"
	           "\tfor i in range(20000): kept.append(bytes(2000))\n"
	           "\tprint(len(os.listdir('/proc/self/task')), flush=True)\n"
	           "if os.fork() == 0:\n"
	           "\tif sys.argv[1] == 'main':\n"
	           "\t\tgrow()\n"
	           "\telse:\n"
	           "\t\tthread = threading.Thread(target=grow)\n"
	           "\t\tthread.start()\n"
	           "\t\tthread.join()\n"
	           "\tos._exit(0)\n"
	           "os.wait()")

	got = run(["/usr/bin/python3", "-c", program, thread], env(BUDGET_PCT=0, PRESSURE=0), timeout=30)

	assert (got.returncode, got.stdout, got.stderr) == (0, "2\n" if thread == "main" else "3\n", "")


def test_a_child_that_does_nothing_is_asked_nothing(run, env, compile_c, backend):
	"""Each question to jemalloc builds its tables again in a child: a hundred faults, which doubled the time of a fork."""
	program = [compile_c("forks_only.c")]

	bare = run(program, env(ENABLE=0))
	ours = run(program, env())

	assert int(ours.stdout) < int(bare.stdout) + 90, (bare.stdout, ours.stdout)


FIRST_CALLS = {
	"true": (["/bin/true"], ""),
	"git": (["git", "--version"], "git version"),
	"python3": (["/usr/bin/python3", "-c", "print(sum(range(10)))"], "45"),
	"bash": (["bash", "-c", "echo $((6*7)) | cat"], "42"),
	"perl": (["perl", "-e", "print 6*7"], "42"),
	"gdb": (["gdb", "-nx", "-batch", "-ex", "print 6*7"], "$1 = 42"),
	"node": (["node", "-e", "console.log(6*7)"], "42"),
	"java": (["java", "-version"], ""),
}


@pytest.mark.parametrize("name", FIRST_CALLS)
def test_the_worker_starts_at_the_first_malloc(run, env, bare, mt_dir, backend, name):
	command, expected = FIRST_CALLS[name]
	if shutil.which(command[0]) is None:
		pytest.skip(f"{name} is not installed")

	for _ in range(3):
		got = run(command, env(MIN_MB=0), timeout=60)
		assert got.returncode == 0, got.stderr
		assert expected in got.stdout
	assert list(mt_dir.iterdir()) == [], "a process that has ended leaves no file"


@pytest.mark.parametrize("option, policy", [("-f", os.SCHED_OTHER), ("-r", os.SCHED_OTHER), ("-i", os.SCHED_IDLE)])
def test_the_worker_has_the_policy_of_the_program_but_for_a_real_time_one(run, puppet, env, bare, awake, option, policy):
	"""A real-time one would purge before all others. And in a program that only takes what nobody wants more than that is refused:
	without privileges it had no worker at all."""
	wrapper = ["chrt", option, "0" if option == "-i" else "5"]
	if run([*wrapper, "true"], bare).returncode != 0:
		pytest.skip(f"{' '.join(wrapper)} is not allowed here")
	settings = env(MIN_MB=0)
	actor = puppet(settings, wrapper=wrapper)
	awake(actor.pid, settings)

	policies = {(task / "comm").read_text().strip(): os.sched_getscheduler(int(task.name))
	            for task in pathlib.Path(f"/proc/{actor.pid}/task").iterdir()}
	assert policies.pop("mtshim") == policy
	assert list(policies.values()) == [{"-f": os.SCHED_FIFO, "-r": os.SCHED_RR, "-i": os.SCHED_IDLE}[option]]
