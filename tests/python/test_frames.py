"""mtctl sites on a Python program: the line of Python above the C frames of each sample, read from the interpreter's own frames in the
thread that allocates, with the GIL or without it."""
import json
import pathlib
import select

import pytest

from json_schema import fits

PYTHON = "/usr/bin/python3"
PYENV = pathlib.Path("/root/.pyenv/versions")
MB = 1 << 20

# Each marked line keeps 6 MB. ctypes calls malloc without the GIL, while another thread runs lines of its own.
PROGRAM = r'''
import ctypes, sys, threading
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
kept = []
done = False
def without_gil():
    kept.append(libc.malloc(60_000))  # without_gil
def with_gil():
    kept.append(bytearray(60_000))  # with_gil
def generate():
    while True:
        yield bytearray(60_000)  # generator
LONG
def other():
    while not done:
        sum(range(50))
        sum(range(60))
thread = threading.Thread(target=other)
thread.start()
each = generate()
for _ in range(105):
    without_gil()
    with_gil()
    long()
    kept.append(next(each))
    kept.append((lambda: [bytearray(60_000)])())  # lambda
done = True
thread.join()
print("ready", flush=True)
sys.stdin.read()
'''.replace("LONG", "def long(x=0):\n" + "    x += x if x else sum((1, 2))\n" * 300 + "    kept.append(bytearray(60_000))  # long\n")
MARKED = ["without_gil", "with_gil", "generator", "long", "lambda"]


def found_python(version):
	found = [PYTHON] if version == "system" else sorted(map(str, PYENV.glob(f"{version}.*/bin/python3")))
	if not found:
		pytest.skip(f"no Python {version} in {PYENV}")
	return found[-1]


def bytes_by_line(control, one):
	done = control(one.env, "sites", one.pid, "--json", "--top=0")
	assert done.returncode == 0, done.stderr
	sums = {}
	for site in fits("sites", done.stdout)["sites"]:
		sums[site["python"]] = sums.get(site["python"], 0) + site["bytes"]
		is_cut = len(site["frames"]) == 64  # an import within imports
		assert site["python"] is None or is_cut or site["python"] in site["frames"], site
	return sums


def started(steer, env, awake, python, path, sample=15):
	one = steer([python, path], env(MIN_MB=0, PROF="on", MALLOC_CONF=f"lg_prof_sample:{sample}"))
	assert select.select([one.process.stdout], [], [], 60)[0], "it hangs"
	assert one.process.stdout.readline() == "ready\n"
	awake(one.pid, one.env)
	return one


@pytest.mark.parametrize("version", ["system", "3.11", "3.12", "3.13", "3.14"])
def test_each_line_has_what_it_keeps(steer, env, awake, control, tmp_path, version):
	path = tmp_path / "program.py"
	path.write_text(PROGRAM)
	one = started(steer, env, awake, found_python(version), path)

	sums = bytes_by_line(control, one)

	lines = {mark: number for number, text in enumerate(PROGRAM.splitlines(), 1) for mark in MARKED if text.endswith(f"# {mark}")}
	assert len(lines) == len(MARKED)
	for mark, line in lines.items():
		assert 3 * MB < sums.get(f"{path}:{line}", 0) < 12 * MB, (mark, line, sums)


def test_a_python_whose_frames_are_not_known_has_c_frames_alone(steer, env, awake, control, tmp_path):
	path = tmp_path / "program.py"
	path.write_text(PROGRAM)
	one = started(steer, env, awake, found_python("3.10"), path)

	sums = bytes_by_line(control, one)

	assert set(sums) == {None} and sums[None] > 20 * MB


# Each file has a name of its own, and each block of it is sampled.
GENERATED = r'''
import ctypes, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
kept = []
text = "def run(keep, malloc):\n    keep.append(malloc(20_000))\n"
for number in range(23_000):
    made = {}
    exec(compile(text, f"/app/gen{number}.py", "exec"), made)
    made["run"](kept, libc.malloc)
print("ready", flush=True)
sys.stdin.read()
'''


@pytest.mark.slow
def test_a_program_that_compiles_without_end_goes_on_and_the_lines_beyond_the_table_have_one_name(steer, env, awake, control, tmp_path):
	path = tmp_path / "program.py"
	path.write_text(GENERATED)
	one = started(steer, env, awake, PYTHON, path, sample=12)

	done = control(one.env, "sites", one.pid, "--json", "--top=0")
	sites = json.loads(done.stdout)["sites"]
	assert len({site["python"] for site in sites if str(site["python"]).startswith("/app/gen")}) > 10_000
	caller = GENERATED.splitlines().index('    made["run"](kept, libc.malloc)') + 1
	rest = [site for site in sites if "<further files and lines>:0" in site["frames"] and site["python"] == f"{path}:{caller}"]
	assert sum(site["bytes"] for site in rest) > 100 * MB


TORCH = """
import sys, torch
torch.set_num_threads(1)
kept = []
for _ in range(120):
    gone = torch.ones(64, 1024)
    kept.append(torch.full((64, 1024), 2.0))  # leak
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.long
def test_the_line_of_tensors_that_are_kept_is_the_first(steer, env, awake, control, run, tmp_path):
	if run([PYTHON, "-c", "import torch"]).returncode:
		pytest.skip("not installed: torch")
	path = tmp_path / "train.py"
	path.write_text(TORCH)
	one = started(steer, env, awake, PYTHON, path)

	sums = bytes_by_line(control, one)

	line = next(number for number, text in enumerate(TORCH.splitlines(), 1) if text.endswith("# leak"))
	own = {name: bytes_ for name, bytes_ in sums.items() if name and name.startswith(str(path))}
	assert sums[f"{path}:{line}"] == max(own.values()) and 15 * MB < sums[f"{path}:{line}"] < 45 * MB, sums
	assert f", from {path}:{line}\n" in control(one.env, "sites", one.pid, "--top=0").stdout
