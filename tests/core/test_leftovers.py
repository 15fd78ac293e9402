"""What a process has outside of itself ends with it, however it ends: no file of the dead stays in memory that others need."""
import os
import pathlib
import signal
import subprocess
import time

import pytest


def names(folder):
	return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("how", ["_exit", "_Exit", "quick_exit", "handler"])
def test_a_process_that_leaves_without_exit_handlers_leaves_no_files(run, env, compile_c, mt_dir, backend, how):
	for _ in range(3):
		got = run([compile_c("leaves.c"), how], env(MIN_MB=0))
		assert (got.returncode, got.stdout, got.stderr, names(mt_dir)) == (7, "awake\n", "", [])


@pytest.mark.parametrize("how", ["vfork", "forked", "child"])
def test_the_end_of_a_child_takes_no_file_from_its_parent(run, env, compile_c, mt_dir, backend, how):
	got = run([compile_c("leaves.c"), how], env(MIN_MB=0))

	assert (got.returncode, got.stdout, got.stderr, names(mt_dir)) == (7, "awake\nkept\n", "", [])


def test_workers_of_multiprocessing_leave_no_files(run, env, mt_dir, backend):
	script = ("import multiprocessing, os, time\n"
	          "def work(_):\n"
	          "    held = [bytes(3000) for _ in range(3000)]\n"
	          "    time.sleep(0.1)\n"
	          "if __name__ == '__main__':\n"
	          "    held = [bytes(3000) for _ in range(3000)]\n"
	          "    for _ in range(3):\n"
	          "        with multiprocessing.get_context('fork').Pool(4) as pool:\n"
	          "            pool.map(work, range(8))\n"
	          "            pool.close()\n"
	          "            pool.join()\n"
	          "    left = lambda: {name.split('-')[0] for name in os.listdir(os.environ['MT_DIR'])} - {str(os.getpid())}\n"
	          "    end = time.monotonic() + 8 # one that ended in the middle of its beginnings is for the sweep\n"
	          "    while left() and time.monotonic() < end: time.sleep(0.05)\n"
	          "    print(left())\n")

	got = run(["/usr/bin/python3", "-c", script], env(MIN_MB=0))

	assert (got.returncode, got.stdout) == (0, "set()\n"), got.stderr


@pytest.mark.parametrize("end", ["return", "sys.exit()"])
def test_a_process_that_has_forked_removes_what_its_killed_children_left(run, env, mt_dir, end):
	"""As uvicorn and R's mclapply end their workers: SIGTERM to each, waitpid, and the parent's own end. The folder's time is that
	of a sweep just now, after which no other process would sweep it."""
	script = ("import os, signal, sys, time\n"
	          "folder = os.environ['MT_DIR']\n"
	          "def main():\n"
	          "    held = [bytes(3000) for _ in range(3000)]\n"
	          "    workers = []\n"
	          "    for _ in range(3):\n"
	          "        pid = os.fork()\n"
	          "        if pid == 0:\n"
	          "            held = [bytes(3000) for _ in range(3000)]\n"
	          "            time.sleep(60)\n"
	          "        workers.append(pid)\n"
	          "    named = lambda pid: any(name.startswith(f'{pid}-') for name in os.listdir(folder))\n"
	          "    while not all(map(named, workers)): time.sleep(0.01)\n"
	          "    swept_now = lambda: os.utime(folder, (int(time.time()),) * 2)\n"
	          "    swept_now()\n"
	          "    for pid in workers:\n"
	          "        os.kill(pid, signal.SIGTERM)\n"
	          "        os.waitpid(pid, 0)\n"
	          "    left = all(map(named, workers))\n"
	          "    swept_now()\n"
	          "    print(left, flush=True)\n"
	          f"    {end}\n"
	          "main()\n")

	got = run(["/usr/bin/python3", "-c", script], env(MIN_MB=0))

	assert (got.stdout, got.stderr, names(mt_dir)) == ("True\n", "", [])


@pytest.fixture
def resting(puppet, env, awake, mt_dir):
	"""A process that has its files, and does nothing."""
	settings = env(MIN_MB=0)
	actor = puppet(settings)
	awake(actor.pid, settings)
	return actor


def test_what_a_killed_process_leaves_is_gone_in_a_few_seconds(run, env, compile_c, mt_dir, resting, wait_for):
	own = names(mt_dir)
	assert run([compile_c("leaves.c"), "kill"], env(MIN_MB=0)).returncode == -signal.SIGKILL
	assert len(names(mt_dir)) == 4

	wait_for(lambda: names(mt_dir) == own, 8, "only the files of the living process")


def test_what_a_killed_process_leaves_is_gone_before_its_parent_waits_for_it(spawn, env, compile_c, mt_dir, resting, wait_for):
	own = names(mt_dir)
	child = spawn([compile_c("leaves.c"), "kill"], env(MIN_MB=0))
	assert child.stdout.readline() == "awake\n"

	wait_for(lambda: names(mt_dir) == own, 8, "only the files of the living process")
	assert os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG), "it is a zombie"


def test_a_process_that_makes_its_files_sweeps_the_folder_first(run, env, compile_c, mt_dir):
	for _ in range(3):
		os.utime(mt_dir, (1, 1)) # as if the last sweep was long ago
		run([compile_c("leaves.c"), "kill"], env(MIN_MB=0))
	assert len(names(mt_dir)) == 2


def ticks_of(pid):
	return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def test_no_file_goes_that_may_be_a_living_processs(mt_dir, resting, wait_for):
	"""Beside those of the dead, as a sign that somebody has swept."""
	pidns = os.stat("/proc/self/ns/pid").st_ino
	own, start = os.getpid(), ticks_of(os.getpid())
	dead = subprocess.Popen(["/bin/true"])
	dead.wait()
	stay = [f"{own}-{start}-{pidns}.stats", f"{own}-{start}-{pidns}.heap", f"{dead.pid}-{start}-{pidns + 1}.stats", "0-1-2.stats",
	        f"{dead.pid}-{start}-{pidns}.other", f"{dead.pid}-{start}-{pidns}.stats.moved", f"x{dead.pid}-{start}-{pidns}.stats",
	        "notes", f"{2**64}-{start}-{pidns}.stats", f"0{dead.pid}-{start}-{pidns}.stats"]
	go = [f"{dead.pid}-{start}-{pidns}.{kind}" for kind in ("stats", "control", "heap", "blocks", "lines", "fresh")]
	go += [f"{own}-{start + 1}-{pidns}.stats"] # the pid was another's
	kept = names(mt_dir)
	for name in stay + go:
		(mt_dir / name).write_bytes(b"x")

	wait_for(lambda: not set(go) & set(names(mt_dir)), 8, "the dead's files are gone")
	assert names(mt_dir) == sorted(kept + stay)


def test_a_process_that_cannot_see_the_others_sweeps_nothing(run, env, mt_dir, compile_c):
	"""With the /proc of another pid namespace, or with none, all others would seem dead."""
	if subprocess.run(["unshare", "-p", "-f", "true"], capture_output=True).returncode != 0:
		pytest.skip("may not make a pid namespace here")
	pidns = os.stat("/proc/self/ns/pid").st_ino
	alien = mt_dir / f"{os.getpid()}-{ticks_of(os.getpid())}-{pidns}.stats"
	alien.write_bytes(b"x")
	settings = env(MIN_MB=0)
	preload = ["/usr/bin/env", f"LD_PRELOAD={settings.pop('LD_PRELOAD')}"]
	for wrapper in (["unshare", "-p", "-f"], ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"']):
		got = run([*wrapper, *preload, compile_c("leaves.c"), "_exit"], settings)
		assert got.returncode == 7, got.stderr
	assert alien.exists()


@pytest.mark.slow
def test_a_folder_of_many_living_processes_is_swept_by_one_of_them_at_a_time(spawn, env, mt_dir, bare, puppet, awake, wait_for):
	"""1,000 names of living processes beside 1,000 of the dead; of two resting processes each would look at them all."""
	pidns = os.stat("/proc/self/ns/pid").st_ino
	living = spawn(["/bin/sleep", "60"], bare)
	for number in range(1000):
		(mt_dir / f"{living.pid}-{ticks_of(living.pid)}-{pidns}.{'stats' if number == 0 else f'other{number}'}").write_bytes(b"")
		(mt_dir / f"{4194304 + number}-1-{pidns}.stats").write_bytes(b"")
	settings = env(MIN_MB=0)
	actors = [puppet(settings) for _ in range(2)]
	for actor in actors:
		awake(actor.pid, settings)
	wait_for(lambda: not list(mt_dir.glob("41943*")), 10, "the dead's files are gone")
	turns = set()
	end = time.monotonic() + 4.5
	while time.monotonic() < end:
		turns.add(mt_dir.stat().st_atime_ns)
		time.sleep(0.02)
	turns = sorted(turn for turn in turns if turn % 10**9 == 0)

	assert len(names(mt_dir)) == 1004
	assert all(after - before >= 2 * 10**9 for before, after in zip(turns, turns[1:])), turns
