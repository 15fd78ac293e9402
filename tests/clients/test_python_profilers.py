"""Profilers of Python set hooks on its allocators. Python's objects must pass these hooks with the shim too."""
import json

import pytest

pytestmark = pytest.mark.xdist_group("pypi")  # one worker, so that the packages are installed once

BACKENDS = ("jemalloc", "system")
PROGRAM = r'''
import hashlib
def work(seed):
    rows = [bytearray(100_000 + seed) for _ in range(200)]
    table = {str(i): [i] * 5 for i in range(20_000)}
    return hashlib.sha256(b"".join(bytes(row[:10]) for row in rows)).hexdigest()[:8], len(table)
for seed in range(2):
    print(work(seed))
'''


@pytest.fixture
def profiled(run, bare, env, pypi_python, tmp_path):
	"""profiled(settings, words...): a profiler's run of the program."""
	(tmp_path / "program.py").write_text(PROGRAM)
	(tmp_path / "tmp").mkdir()

	def start(settings, *words):
		# pip has compiled nothing: the first run does.
		settings = dict(settings, TMPDIR=str(tmp_path / "tmp"), HOME=str(tmp_path), PYTHONDONTWRITEBYTECODE="")
		return run([pypi_python, "-m", *words], settings, cwd=tmp_path, timeout=120)
	return start


def test_scalene_profiles_the_same_files(profiled, bare, env, tmp_path):
	def files(settings):
		done = profiled(settings, "scalene", "run", "-o", "profile.json", "program.py")
		assert done.returncode == 0, done.stdout + done.stderr
		# Its figures are samples, and differ from run to run.
		return done.stdout, json.loads((tmp_path / "profile.json").read_text())["files"].keys()

	expected = files(bare)

	for backend in BACKENDS:
		assert files(env(ALLOCATOR=backend)) == expected, backend


def test_memray_records_the_same_allocations_of_the_program(profiled, bare, env, tmp_path):
	def allocations(settings, name):
		done = profiled(settings, "memray", "run", "-q", "-o", name, "program.py")
		assert done.returncode == 0, done.stdout + done.stderr
		told = profiled(bare, "memray", "stats", "--json", "-o", f"{name}.json", name)
		assert told.returncode == 0, told.stderr
		return done.stdout, json.loads((tmp_path / f"{name}.json").read_text())

	plain = allocations(bare, "plain")

	for backend in BACKENDS:
		compare(plain, allocations(env(ALLOCATOR=backend), backend))


def compare(expected, got):
	(plain_said, plain), (said, recorded) = expected, got
	assert said == plain_said
	assert recorded["total_num_allocations"] == pytest.approx(plain["total_num_allocations"], rel=0.1, abs=50)
	# What malloc maps for itself is under no line of Python's. Python's arenas of 1 MB are: some 12 of the 15 MB of the dictionaries, one more
	# or less as objects happen to lie.
	of_program, of_shim = ({entry["location"]: entry["size"] for entry in of["top_allocations_by_size"] if "program.py" in entry["location"]}
	                       for of in (plain, recorded))
	assert of_program and of_shim == pytest.approx(of_program, rel=0.2)
