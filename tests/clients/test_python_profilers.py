"""Profilers of Python set hooks on its allocators. Python's objects must pass these hooks with the shim too."""
import json

import pytest

PROGRAM = r'''
import hashlib
def work(seed):
    rows = [bytearray(100_000 + seed) for _ in range(200)]
    table = {str(i): [i] * 5 for i in range(20_000)}
    return hashlib.sha256(b"".join(bytes(row[:10]) for row in rows)).hexdigest()[:8], len(table)
for seed in range(4):
    print(work(seed))
'''


@pytest.fixture
def profiled(run, bare, env, pypi_python, tmp_path):
	"""profiled(shim, words...): a profiler's run of the program, with the shim or without it."""
	(tmp_path / "program.py").write_text(PROGRAM)
	(tmp_path / "tmp").mkdir()

	def start(shim, *words):
		settings = dict(env() if shim else bare, TMPDIR=str(tmp_path / "tmp"), HOME=str(tmp_path))
		return run([pypi_python, "-m", *words], settings, cwd=tmp_path, timeout=120)
	return start


def test_scalene_profiles_the_same_files(profiled, backend, tmp_path):
	expected = profiled(False, "scalene", "run", "-o", "plain.json", "program.py")
	assert expected.returncode == 0, expected.stdout + expected.stderr

	got = profiled(True, "scalene", "run", "-o", "shim.json", "program.py")

	assert (got.returncode, got.stdout) == (0, expected.stdout), got.stderr
	# Its figures are samples, and differ from run to run.
	plain, shim = (json.loads((tmp_path / name).read_text())["files"].keys() for name in ("plain.json", "shim.json"))
	assert shim == plain


def test_memray_records_the_same_allocations_of_the_program(profiled, backend, tmp_path):
	def allocations(shim, name):
		done = profiled(shim, "memray", "run", "-q", "-o", name, "program.py")
		assert done.returncode == 0, done.stdout + done.stderr
		told = profiled(False, "memray", "stats", "--json", "-o", f"{name}.json", name)
		assert told.returncode == 0, told.stderr
		return done.stdout, json.loads((tmp_path / f"{name}.json").read_text())

	plain_said, plain = allocations(False, "plain")
	said, recorded = allocations(True, "shim")

	assert said == plain_said
	assert recorded["total_num_allocations"] == pytest.approx(plain["total_num_allocations"], rel=0.1, abs=50)
	# What malloc maps for itself is under no line of Python's. Python's arenas of 1 MB are: some 12 of the 15 MB of the dictionaries, one more
	# or less as objects happen to lie.
	of_program, of_shim = ({entry["location"]: entry["size"] for entry in of["top_allocations_by_size"] if "program.py" in entry["location"]}
	                       for of in (plain, recorded))
	assert of_program and of_shim == pytest.approx(of_program, rel=0.2)
