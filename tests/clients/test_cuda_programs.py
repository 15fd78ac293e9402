"""Programs that reach the driver by every road there is: linked, dlopen in all its ways, cuGetProcAddress of both times. On the
fake driver, in the versions that differ: 11.0 has no cuGetProcAddress, 12.2 no cuCtxRecordEvent."""
import collections
import pathlib
import re
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VERSIONS = ["11.0", "12.2", "12.8", "13.0"]
# Each driver version with some of the roads, each road with at least one version.
ROADS = [("11.0", "linked"), ("11.0", "local"), ("11.0", "version"), ("12.2", "linked"), ("12.2", "global"),
         ("12.2", "proc"), ("12.2", "proc_old"), ("12.8", "deepbind"), ("12.8", "proc"), ("13.0", "linked"),
         ("13.0", "local"), ("13.0", "lazy"), ("13.0", "path"), ("13.0", "next"), ("13.0", "proc"), ("13.0", "proc_old")]
SHIM = "libmtshim.so"
DRIVER = "libcuda.so.1"


def exports_of(library):
	listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
	return {line.split()[-1].split("@")[0] for line in listed.splitlines() if " T " in line}


@pytest.fixture(scope="session")
def wrapped():
	"""The functions of the driver that the shim wraps."""
	text = (ROOT / "shim" / "gpu" / "driver.def").read_text()
	table = text.split("#define MT_DRIVER_RETRIED")[1].split("#define MT_DRIVER_CALLED")[0]
	rows = re.findall(r"\b(?:X|MT_(PTSZ|PTDS)(?:_FLAG)?)\((?:X, )?(cu\w+),", table)
	names = {name for _, name in rows} | {f"{name}_{twin.lower()}" for twin, name in rows if twin}
	assert len(names) > 50
	return names


@pytest.fixture
def program(compile_c, fakecuda, bare):
	"""program(road): the client for a road."""
	def build(road):
		flags = []
		if road == "linked":
			library = fakecuda(bare)["LD_LIBRARY_PATH"] + "/libcuda.so.1"
			flags += ["-DROAD_LINKED", "-Wl,--no-as-needed", library]
		return compile_c("cuda_program.c", *flags)
	return build


@pytest.mark.parametrize("version, road", ROADS)
def test_a_program_is_answered_as_without_the_shim(run, bare, env, fakecuda, program, version, road):
	binary = program(road)
	plain = fakecuda(bare, version, FREE_WAITS=2)
	plain["CUDA_CLIENT_PATH"] = plain["LD_LIBRARY_PATH"] + "/libcuda.so.1"
	shimmed = dict(plain, **{name: value for name, value in env(LOG_LEVEL="error").items() if name.startswith(("MT_", "LD_PRE"))})

	expected = run([binary, road], plain)
	got = run([binary, road], shimmed)

	assert expected.returncode == 7, expected.stdout + expected.stderr
	# A weak reference to what this driver does not have is bound to the shim, which says so when it is called.
	answers = got.stdout.replace(": 500\n", ": missing\n") if road == "linked" else got.stdout
	assert answers == expected.stdout
	assert (got.returncode, got.stderr) == (expected.returncode, expected.stderr)


@pytest.mark.parametrize("road", ["linked", "local", "deepbind", "proc", "proc_old"])
def test_every_road_leads_to_the_pool(run, env, fakecuda, program, road, tmp_path):
	"""The program makes some 300 allocations; the driver must see only a few of them."""
	log = tmp_path / "calls"

	got = run([program(road), road], fakecuda(env(), "13.0", LOG=log))

	assert got.returncode == 7
	calls = collections.Counter(line.split()[-1] for line in log.read_text().splitlines())
	assert 0 < calls["cuMemAlloc_v2"] < 60 and calls["cuMemFree_v2"] < 60


def owners(run, binary, way, names, environment):
	"""Returns each reply as (way, name) -> (result, status, file, symbol)."""
	got = run([binary, way], environment, input="\n".join(names) + "\n")
	if got.returncode == 3:
		return None
	assert got.returncode == 0, got.stderr
	answers = {}
	for line in got.stdout.splitlines():
		words = line.split()
		answers[words[0], words[1]] = tuple(words[2:])
	return answers


def compare(expected, got, wrapped):
	"""Expects the driver's pointer for each name, and ours for wrapped ones; returns the number of ours."""
	assert expected.keys() == got.keys()
	ours = 0
	for key, (result, status, file, symbol, exact) in expected.items():
		if file == DRIVER and symbol in wrapped and exact == "1":
			assert got[key][:3] == (result, status, SHIM), key
			ours += 1
		else:
			assert got[key] == (result, status, file, symbol, exact), key
	return ours


@pytest.mark.parametrize("version", VERSIONS)
def test_every_look_up_answers_the_drivers_own_pointer_unless_wrapped(run, bare, env, fakecuda, compile_c, wrapped, version):
	binary = compile_c("cuda_owners.c")
	plain, shimmed = fakecuda(bare, version), fakecuda(env(), version)
	exports = exports_of(plain["LD_LIBRARY_PATH"] + "/libcuda.so.1")
	names = sorted(exports | set((HERE / "cuda_names.txt").read_text().split()))

	expected = owners(run, binary, "dlsym", names, plain)
	got = owners(run, binary, "dlsym", names, shimmed)

	resolvers = {"cuGetProcAddress", "cuGetProcAddress_v2"} & exports
	ours = compare(expected, got, wrapped | resolvers)
	assert ours == 2 * len(exports & (wrapped | resolvers))


@pytest.mark.parametrize("way", ["proc", "proc_old"])
@pytest.mark.parametrize("version", VERSIONS)
def test_cugetprocaddress_as_the_runtime_asks_it(run, bare, env, fakecuda, compile_c, wrapped, version, way):
	binary = compile_c("cuda_owners.c")
	names = (HERE / "cuda_names.txt").read_text().split()
	assert len(names) == 440

	expected = owners(run, binary, way, names, fakecuda(bare, version))
	got = owners(run, binary, way, names, fakecuda(env(), version))

	if expected is None:
		assert got is None and version == "11.0"
		return
	ours = compare(expected, got, wrapped | {"cuGetProcAddress", "cuGetProcAddress_v2"})
	assert ours >= (120 if way == "proc" else 45)
	# Names that no driver has are found by nobody.
	assert all(got[key][2] == "none" for key in got if key[1] in ("cudnnCreate", "cuMemAlloc3", "cu"))


def test_without_a_driver_its_names_are_not_there(run, bare, env):
	"""The shim exports them for programs that are linked with the driver. A lookup by name must not find the shim's."""
	script = ("import ctypes\nfor name in ('cuMemAlloc_v2', 'cuMemFree_v2', 'cuGetProcAddress', 'cuGetProcAddress_v2', "
	          "'cuInit', 'cuStreamBeginCapture_v2'):\n\ttry: ctypes.CDLL(None)[name]; print(name, 'there')\n"
	          "\texcept AttributeError: print(name, 'missing')\n"
	          "print('libcuda' in open('/proc/self/maps').read())\n")
	expected = run(["/usr/bin/python3", "-c", script], bare)

	got = run(["/usr/bin/python3", "-c", script], env())

	assert got.stdout == expected.stdout and got.stdout.count("missing") == 6 and got.stdout.endswith("False\n")


def test_a_program_without_cuda_has_nothing_of_it(run, env, fakecuda, tmp_path):
	"""It opens no file and looks up no symbol, not even with a heavy cleanup and a worker that purges all the time."""
	script = ("import os, signal, time\nfor i in range(5):\n\tos.kill(os.getpid(), signal.SIGUSR1); time.sleep(0.3)\n"
	          "print(any(name in open('/proc/self/maps').read() for name in ('libcuda', 'libnvidia-ml')))\n")
	environment = dict(fakecuda(env(MIN_MB=0, TICK_MS=20)), LD_DEBUG="files,symbols", LD_DEBUG_OUTPUT=str(tmp_path / "loader"))

	got = run(["/usr/bin/python3", "-c", script], environment)

	assert got.stdout == "False\n", got.stderr
	(log,) = tmp_path.glob("loader.*")
	text = log.read_text(errors="replace")
	assert "symbol=malloc;" in text
	assert re.search(r"symbol=(cu[A-Z]\w*|nvml\w*);", text) is None and "libcuda" not in text and "libnvidia" not in text
