"""The wheel: what is in it, the commands mtshim and mtctl, and the package mtshim with and without the library."""
import ast
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile
import zipfile

import pytest

from places import PYTHON, ROOT

VERSION = re.search(r"^VERSION\s*:= (\S+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
SOURCES = sorted((ROOT / "ctl/python/mtshim").glob("*.py"))
FLAGS = ast.literal_eval(re.search(r"^FLAGS = (\(.*?\))", (SOURCES[0].parent / "__main__.py").read_text(), re.MULTILINE)[1])
MB = 1 << 20
# Frees 200 MB, with blocks between them that stay.
HOARD = "blocks = [bytes(4000) for _ in range(50000)]; kept = blocks[::500]; del blocks\n"

pytestmark = pytest.mark.xdist_group("wheel")  # one worker makes the venv


def pack(folder):
	done = subprocess.run([ROOT / "scripts/wheel/pack", ROOT / "build", VERSION, folder], capture_output=True, text=True,
	                      env=dict(os.environ, SOURCE_DATE_EPOCH="1700000000"))
	assert done.returncode == 0, done.stdout + done.stderr
	return pathlib.Path(done.stdout.strip())


def install(python, wheel, folder, *before):
	"""Without the network. The machine's pip, which takes half the time to install a package that it would take to install pip itself."""
	for words in ([python, "-m", "venv", "--without-pip", folder],
	              [python, "-m", "pip", "--python", folder / "bin/python", "install", "-q", "--no-index", "--no-cache-dir", wheel]):
		done = subprocess.run([*before, *words], capture_output=True, text=True, cwd="/")
		assert done.returncode == 0, done.stdout + done.stderr
	return folder / "bin"


@pytest.fixture(scope="module")
def wheel(shim, tmp_path_factory):
	return pack(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def bin_dir(wheel, tmp_path_factory):
	"""The commands of a venv that has the wheel."""
	return install(PYTHON, wheel, tmp_path_factory.mktemp("venv") / "venv")


@pytest.fixture(scope="module")
def package(bin_dir):
	return next(bin_dir.parent.glob("lib/python3*/site-packages/mtshim"))


@pytest.fixture
def plain(bare, mt_dir):
	return dict(bare, MT_DIR=str(mt_dir))


@pytest.fixture
def mtshim(bin_dir, plain, run):
	"""mtshim(words..., prefix=[], NAME=VALUE...): the command of the venv, behind the words of prefix."""
	def call(*words, prefix=(), **environment):
		return run([*prefix, bin_dir / "mtshim", *words], dict(plain, **environment))
	return call


@pytest.fixture
def python(bin_dir, plain, run):
	"""python(text, *before, **environment): what a program in the venv prints."""
	def call(text, *before, **environment):
		done = run([*before, bin_dir / "python", "-c", text], dict(plain, **environment))
		assert done.returncode == 0, done.stderr
		return done.stdout.strip()
	return call


@pytest.fixture
def inside(python, bin_dir):
	"""inside(text, **environment): what a program prints that mtshim run has started."""
	return lambda text, **environment: python(text, bin_dir / "mtshim", "run", "--", **environment)


# ---- the file ----

def test_the_wheel_has_the_library_four_programs_and_a_typed_package(wheel):
	with zipfile.ZipFile(wheel) as archive:
		modes = {entry.filename: stat.S_IMODE(entry.external_attr >> 16) for entry in archive.infolist()}

	programs = ["libmtshim.so", "mtctl", "mtctl-top", "mtctl-plot", "mtctl-serve"]
	assert [modes[f"mtshim/bin/{name}"] for name in programs] == [0o755] * 5
	assert {f"mtshim/{path.name}" for path in SOURCES} | {"mtshim/py.typed"} <= set(modes)
	assert {f"mtshim-{VERSION}.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")} <= set(modes)


def test_the_same_build_gives_the_same_wheel(wheel, tmp_path):
	assert pack(tmp_path).read_bytes() == wheel.read_bytes()


@pytest.mark.long
def test_an_installed_wheel_has_all_that_its_record_names(bin_dir, python):
	listed = json.loads(python("import importlib.metadata, json; print(json.dumps([str(file.locate()) for file in "
	                           "importlib.metadata.files('mtshim')]))"))

	assert len(listed) > 10 and all(os.path.exists(path) for path in listed)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_the_package_is_in_the_language_of_python_3_8(path):
	ast.parse(path.read_text(), feature_version=(3, 8))


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests are run by an ordinary user already")
def test_an_ordinary_user_installs_the_wheel_and_runs_a_program(wheel, bare, run):
	with tempfile.TemporaryDirectory(prefix="mtshim-wheel-") as folder:
		os.chmod(folder, 0o755)
		shutil.copy(wheel, folder)
		home = pathlib.Path(folder, "home")
		home.mkdir()
		os.chown(home, 65534, 65534)
		before = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", f"HOME={home}"]

		commands = install(PYTHON, pathlib.Path(folder, wheel.name), home / "venv", *before)
		got = run([*before, commands / "mtshim", "run", "--", commands / "python", "-c",
		           "import mtshim, os; print(os.getuid(), mtshim.is_active())"], bare, cwd="/")

	assert (got.stdout, got.stderr) == ("65534 True\n", "")


@pytest.mark.long
def test_make_wheel_gives_the_same_bytes_twice_and_runs_from_glibc_2_26_on(tmp_path, bare, run):
	"""Needs the network, and mmdebstrap."""
	made = []
	shutil.copytree(ROOT, tmp_path / "one", symlinks=True, ignore=shutil.ignore_patterns("build", "dist", ".git", "__pycache__"))
	shutil.copytree(tmp_path / "one", tmp_path / "a-longer-name", symlinks=True)
	for name in ("one", "a-longer-name"):
		environment = {key: value for key, value in bare.items() if not key.startswith(("MAKE", "MFLAGS"))}
		got = run(["make", "-s", "wheel"], dict(environment, SOURCE_DATE_EPOCH="1700000000"), timeout=3600, cwd=tmp_path / name)
		assert got.returncode == 0, got.stdout + got.stderr
		made.append({file.name: file.read_bytes() for file in (tmp_path / name / "dist").glob("*.whl")})

	assert sorted(made[0]) == [f"mtshim-{VERSION}-py3-none-manylinux_2_26_{arch}.whl" for arch in ("aarch64", "x86_64")]
	assert made[0] == made[1]


# ---- mtshim run ----

def test_run_starts_a_program_under_the_library(inside, package):
	assert inside("import os; print(os.environ['LD_PRELOAD'])") == str(package / "bin/libmtshim.so")
	assert inside("print('libmtshim.so' in open('/proc/self/maps').read())") == "True"


def test_python_m_mtshim_is_the_same_command(python, bin_dir):
	assert python("import mtshim; print(mtshim.is_active())", bin_dir / "python", "-m", "mtshim", "run", "--") == "True"


def test_run_hands_settings_to_the_library(mtshim):
	assert mtshim("run", "--gc-rounds=7", "--", "printenv", "MT_GC_ROUNDS").stdout == "7\n"
	assert mtshim("run", "--gc-rounds=none", "--", "true").returncode == 2


def test_run_takes_a_program_without_two_dashes_and_leaves_it_its_own(mtshim):
	assert mtshim("run", "--gc-rounds=7", "echo", "--", "-n").stdout == "-- -n\n"


def test_run_takes_the_value_of_a_setting_as_a_word_of_its_own(mtshim):
	assert mtshim("run", "--gc-rounds", "7", "--exclude", "ls", "--pressure", "printenv", "MT_GC_ROUNDS").stdout == "7\n"
	alone = mtshim("run", "--exclude", "ls", "--", "echo", "hi", MTSHIM_LIBRARY="/no/such/libmtshim.so")
	assert (alone.returncode, alone.stdout) == (0, "hi\n")


def test_the_settings_without_a_value_are_those_of_mtctl(mtshim):
	told = mtshim("run", "--help").stdout
	assert set(FLAGS) - {"--help"} == set(re.findall(r"^  (?:-\w, )?(--[\w-]+)(?:\[=\w+\])?(?:  |$)", told, re.MULTILINE))


@pytest.mark.parametrize("library", ["", "/no/such/libmtshim.so"], ids=["with", "without"])
@pytest.mark.parametrize("settings", [["--quiet"], ["-q"], ["--quiet", "--pressure", "--min-mb", "7"], ["--quiet", "--"]], ids=" ".join)
def test_a_program_behind_a_setting_without_a_value_keeps_its_own_options(settings, library, mtshim):
	assert mtshim("run", *settings, "echo", "-A", "tasks", **({"MTSHIM_LIBRARY": library} if library else {})).stdout == "-A tasks\n"


@pytest.mark.parametrize("library", [[], ["MTSHIM_LIBRARY=/no/such/libmtshim.so"]], ids=["with", "without"])
@pytest.mark.parametrize("locale", ["", "LC_CTYPE=C.UTF-8", "LC_CTYPE=POSIX"])
def test_the_locale_of_a_program_is_the_one_that_it_was_started_in(locale, library, mtshim):
	"""Python puts LC_CTYPE into the environment where the locale is C."""
	before = ["env", "-i", f"PATH={os.environ['PATH']}", *filter(None, [locale]), *library]
	assert mtshim("run", "--", "sh", "-c", "env | grep ^LC_", prefix=before).stdout == (f"{locale}\n" if locale else "")


def test_a_program_starts_under_the_library_where_there_is_no_proc(mtshim, package):
	alone = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
	if subprocess.run([*alone, "true"], capture_output=True).returncode != 0:
		pytest.skip("no mounts of one's own here")

	got = mtshim("run", "--", "printenv", "LD_PRELOAD", prefix=alone)

	assert (got.stdout, got.stderr) == (f"{package}/bin/libmtshim.so\n", "")


def test_a_program_runs_where_too_few_descriptors_are_left_for_a_trial(mtshim):
	done = mtshim("run", "--", "true", prefix=["prlimit", "--nofile=6"])
	assert (done.returncode, done.stderr) == (0, "")


def test_run_takes_a_library_of_any_name(mtshim, shim, tmp_path):
	shutil.copy(shim, tmp_path / "other.so")

	got = mtshim("run", "--", "printenv", "LD_PRELOAD", MTSHIM_LIBRARY=str(tmp_path / "other.so"))

	assert (got.stdout, got.stderr) == (f"{tmp_path}/other.so\n", "")


def test_an_existing_preload_stays_behind_the_library(mtshim, package, tmp_path):
	other = tmp_path / "libother.so"
	subprocess.run(["gcc", "-shared", "-xc", "/dev/null", "-o", other], check=True)

	assert mtshim("run", "--", "printenv", "LD_PRELOAD", LD_PRELOAD=str(other)).stdout == f"{package}/bin/libmtshim.so:{other}\n"


def test_the_exit_code_is_that_of_the_program(mtshim):
	assert mtshim("run", "--", "sh", "-c", "exit 42").returncode == 42
	assert mtshim("run", "--", "/no/such/program").returncode == 127
	assert mtshim("run").returncode == 2


def test_a_program_under_run_ends_by_a_broken_pipe_as_without_it(mtshim):
	assert mtshim("run", "--", "sh", "-c", "trap '' CHLD; { yes; echo $? >&2; } | head -1 >/dev/null").stderr == "141\n"


def test_mtshim_alone_says_how_it_is_used(mtshim):
	assert mtshim().returncode == 2 and "usage: mtshim run" in mtshim().stderr
	assert mtshim("--help").stdout.startswith("usage: mtshim run") and mtshim("--version").stdout == f"mtshim {VERSION}\n"


def test_help_that_nobody_reads_ends_without_a_word(bin_dir, plain, run):
	got = run(["sh", "-c", f"(sleep 0.1; exec {bin_dir}/mtshim --help) | true; {bin_dir}/mtshim --version >&-"], plain)
	assert (got.returncode, got.stderr) == (0, "")


# ---- mtshim run where the library cannot be loaded ----

def missing(folder, shim):
	return folder / "libmtshim.so"


def text(folder, shim):
	(folder / "libmtshim.so").write_text("not a library\n")
	return folder / "libmtshim.so"


def other_machine(folder, shim):
	data = bytearray(shim.read_bytes())
	data[18] = 0xb7 if data[18] != 0xb7 else 0x3e  # e_machine
	(folder / "libmtshim.so").write_bytes(data)
	return folder / "libmtshim.so"


def other_libc(folder, shim):
	"""Its libc is not there, as on a system with musl: no program starts at all."""
	subprocess.run(["gcc", "-shared", "-xc", "/dev/null", "-Wl,-soname,libc.of-elsewhere.so", "-o", folder / "libc.so"], check=True)
	subprocess.run(["gcc", "-shared", "-xc", "/dev/null", "-xnone", "-Wl,--no-as-needed", folder / "libc.so", "-o", folder / "libmtshim.so"], check=True)
	return folder / "libmtshim.so"


def blank_in_path(folder, shim):
	(folder / "a b").mkdir()
	shutil.copy(shim, folder / "a b/libmtshim.so")
	return folder / "a b/libmtshim.so"


def dollar_in_path(folder, shim):
	(folder / "a$b").mkdir()
	shutil.copy(shim, folder / "a$b/libmtshim.so")
	return folder / "a$b/libmtshim.so"


def blank_in_a_path_of_two_lines(folder, shim):
	(folder / "a\nb c").mkdir()
	shutil.copy(shim, folder / "a\nb c/libmtshim.so")
	return folder / "a\nb c/libmtshim.so"


def missing_in_a_path_of_two_lines(folder, shim):
	return folder / "a\nb/libmtshim.so"


def cut_off(folder, shim):
	(folder / "libmtshim.so").write_bytes(shim.read_bytes()[:100_000])
	return folder / "libmtshim.so"


@pytest.mark.parametrize("make", [missing, text, other_machine, other_libc, blank_in_path, dollar_in_path, cut_off,
                                  blank_in_a_path_of_two_lines, missing_in_a_path_of_two_lines], ids=lambda make: make.__name__)
def test_where_the_library_cannot_be_loaded_the_program_runs_without_it_after_one_line(make, mtshim, shim, tmp_path):
	library = make(tmp_path, shim)

	got = mtshim("run", "--gc-rounds=7", "--", "sh", "-c", 'echo "ran with <$LD_PRELOAD>"; exit 7', MTSHIM_LIBRARY=str(library))

	assert (got.returncode, got.stdout) == (7, "ran with <>\n")
	assert got.stderr.startswith("mtshim: running sh without the library: ") and got.stderr.count("\n") == 1


@pytest.mark.parametrize("name", [b"lat\xe9n", b"two\nlines"], ids=["latin-1", "newline"])
def test_the_path_of_the_library_may_be_any_that_the_loader_takes(name, mtshim, shim, tmp_path):
	folder = tmp_path / os.fsdecode(name)
	folder.mkdir()
	shutil.copy(shim, folder)

	got = mtshim("run", "--", "sh", "-c", "grep -c libmtshim /proc/$$/maps >/dev/null && echo there", MTSHIM_LIBRARY=str(folder / "libmtshim.so"))

	assert (got.stdout, got.stderr) == ("there\n", "")


@pytest.mark.parametrize("stderr", ["2>/dev/full", "2>&-", "2>&1 >&3 3>&- | true"], ids=["full", "closed", "pipe without a reader"])
def test_without_the_library_a_program_runs_also_where_stderr_takes_no_line(stderr, bin_dir, plain, run, tmp_path):
	"""And the line does not go to stdout, into the program's data. The program is slow to come: the pipe's reader is gone by then."""
	got = run(["sh", "-c", f"exec 3>&1; {{ sleep 0.1; exec {bin_dir}/mtshim run -- echo ran; }} {stderr}"],
	          dict(plain, MTSHIM_LIBRARY="/no/such/libmtshim.so"))

	assert (got.stdout, got.returncode) == ("ran\n", 0)


def test_without_the_library_an_existing_preload_stays(mtshim, shim, tmp_path):
	other = tmp_path / "libother.so"
	subprocess.run(["gcc", "-shared", "-xc", "/dev/null", "-o", other], check=True)

	got = mtshim("run", "--", "printenv", "LD_PRELOAD", LD_PRELOAD=str(other), MTSHIM_LIBRARY="/no/such/libmtshim.so")

	assert got.stdout == f"{other}\n" and "/no/such/libmtshim.so is not there" in got.stderr


@pytest.mark.parametrize("outer", ["/gone/libmtshim.so", "/gone/libmtshim.so:{other}", "{other} libmtshim.so"])
def test_without_the_library_no_entry_of_it_is_left_in_an_outer_preload(outer, mtshim, tmp_path):
	other = tmp_path / "libother.so"
	subprocess.run(["gcc", "-shared", "-xc", "/dev/null", "-o", other], check=True)

	got = mtshim("run", "--", "sh", "-c", "echo $LD_PRELOAD", LD_PRELOAD=outer.format(other=other), MTSHIM_LIBRARY="/no/such/libmtshim.so")

	assert got.stdout == (f"{other}\n" if "other" in outer else "\n")


def test_without_the_library_a_program_that_is_not_there_is_still_reported(mtshim):
	got = mtshim("run", "--", "/no/such/program", MTSHIM_LIBRARY="/no/such/libmtshim.so")

	assert got.returncode == 127 and got.stderr.endswith("mtshim: /no/such/program: No such file or directory\n")


@pytest.mark.parametrize("lost", ["libmtshim.so", "mtctl"])
def test_a_program_runs_where_a_file_of_the_package_is_lost(lost, package, bin_dir, plain, run, tmp_path):
	shutil.copytree(package, tmp_path / "mtshim")
	(tmp_path / "mtshim/bin" / lost).unlink()

	got = run([bin_dir / "python", "-m", "mtshim", "run", "--", "sh", "-c", 'echo "<$LD_PRELOAD>"'], dict(plain, PYTHONPATH=str(tmp_path)))

	assert (got.returncode, got.stdout) == (0, "<>\n")
	assert str(tmp_path / "mtshim/bin" / lost) in got.stderr and got.stderr.count("\n") == 1


# ---- mtctl ----

def test_mtctl_of_the_wheel_has_its_programs(bin_dir, plain, run):
	assert run([bin_dir / "mtctl", "--version"], plain).stdout == f"mtctl {VERSION}\n"
	for name in ("top", "plot", "serve"):
		assert run([bin_dir / "mtctl", name, "--help"], plain).stdout.startswith(f"usage: mtctl {name}")


def test_mtctl_of_the_wheel_sees_a_process_of_mtshim_run(bin_dir, plain, run, spawn):
	process = spawn([bin_dir / "mtshim", "run", "--", bin_dir / "python", "-c", "print('ready', flush=True); input()"], plain)
	assert process.stdout.readline() == "ready\n"

	assert str(process.pid) in run([bin_dir / "mtctl", "ps", "--pids"], plain).stdout.split()


# ---- import mtshim, with the library ----

def test_a_trim_lowers_resident_memory_and_returns_by_how_much(inside):
	before, freed, after = map(int, inside(
		HOARD + "import mtshim; before = mtshim.stats().rss_bytes; print(before, mtshim.trim(), mtshim.stats().rss_bytes)",
		MT_BUDGET_PCT="0", MT_PRESSURE="0").split())

	assert before > 180 * MB and after < 90 * MB
	assert abs(before - after - freed) < 10 * MB


@pytest.mark.parametrize("level", ["purge", "light", "heavy"])
def test_each_level_of_trim_is_counted_as_such(inside, level):
	seen = json.loads(inside(f"""
import dataclasses, json, mtshim
before = mtshim.stats()
mtshim.trim(level={level!r})
after = mtshim.stats()
print(json.dumps([name for name in ("purge_count", "light_count", "heavy_count") if getattr(after, name) > getattr(before, name)]))
""", MT_BUDGET_PCT="0", MT_PRESSURE="0"))

	assert f"{level}_count" in seen and ("heavy_count" in seen) == (level == "heavy") and ("light_count" in seen) == (level == "light")


def test_rounds_are_numbered_from_one(inside):
	assert inside("import mtshim; print(mtshim.round(), mtshim.round(), mtshim.stats().rounds_count)") == "1 2 2"


def test_where_ctypes_cannot_be_imported_every_call_does_nothing(inside):
	"""So it is in a subinterpreter of CPython 3.12, and while an interpreter ends."""
	assert inside("""
import sys
sys.modules["ctypes"] = None
import mtshim
mtshim.trim()
print(mtshim.is_active(), mtshim.round(), mtshim.stats().rounds_count, mtshim.allocator())
""") == "False 0 0 unknown"


OUT_OF_REACH = """
import os, sys
sys.path.insert(0, sys.argv[1])
import mtshim
os.rename(sys.argv[1], sys.argv[1] + ".gone")
for name in list(sys.modules):
	if name in ("dataclasses", "inspect"):
		del sys.modules[name]
sys.path.clear()
now = mtshim.stats()
print(mtshim.is_active(), mtshim.round() > 0, mtshim.trim() >= 0, now.active, now.rss_bytes > 0, mtshim.stats().rounds_count, mtshim.allocator())
"""


def copied(folder):
	shutil.copytree(SOURCES[0].parent, folder / "copy/mtshim", ignore=shutil.ignore_patterns("__pycache__"))
	return str(folder / "copy")


@pytest.mark.parametrize("library, seen", [(True, "True True True True True 1 glibc"), (False, "False False True False False 0 unknown")])
def test_the_functions_work_where_the_files_are_out_of_reach_later(library, seen, bare, env, run, tmp_path):
	"""As after a setuid, a chroot, or an uninstallation."""
	got = run([PYTHON, "-c", OUT_OF_REACH, copied(tmp_path)], env() if library else bare, cwd="/")

	assert (got.stdout.strip(), got.stderr) == (seen, "")


def test_the_functions_work_where_all_descriptors_are_in_use(bare, env, run, tmp_path):
	text = """
import os, sys
sys.path.insert(0, sys.argv[1])
import mtshim
held = []
try:
	while True:
		held.append(os.open("/dev/null", 0))
except OSError:
	pass
print(mtshim.is_active(), mtshim.round(), mtshim.stats().active, mtshim.trim() >= 0)
"""
	few, package = ["prlimit", "--nofile=64", PYTHON, "-c", text], copied(tmp_path)

	assert run([*few, package], env()).stdout == "True 1 True True\n"
	assert run([*few, package], bare).stdout == "False 0 False True\n"


def test_the_figures_can_be_asked_for_while_the_interpreter_ends(inside, python):
	text = """
import sys, os
import mtshim
class Last:
	def __del__(self):
		os.write(1, b"%d" % mtshim.stats().active)
sys.modules["last"] = Last()
"""
	assert (inside(text), python(text)) == ("1", "0")


def test_a_package_that_was_not_installed_has_no_version(python):
	assert python("import mtshim; print(mtshim.__version__)", PYTHONPATH=str(SOURCES[0].parent.parent)) == VERSION
	assert python("import sys; sys.path = [one for one in sys.path if 'site-packages' not in one]; import mtshim; print(mtshim.__version__)",
	              PYTHONPATH=str(SOURCES[0].parent.parent)) == "unknown"


COUNT = "import mtshim\ncount = lambda: mtshim.stats().rounds_count\n"


def test_a_round_ends_with_its_block_also_by_an_exception(inside):
	assert inside(COUNT + """
with mtshim.round_scope():
	print(count())
print(count())
try:
	with mtshim.round_scope():
		raise KeyError
except KeyError:
	print(count())
""") == "0\n1\n2"


def test_a_decorated_function_is_a_round_at_each_call(inside):
	assert inside(COUNT + """
@mtshim.round_scope()
def train(add):
	"Trains."
	return count() + add
print(train(10), train(add=10), count(), train.__name__, train.__doc__)
""") == "10 11 2 train Trains."


def test_a_decorated_coroutine_is_a_round_until_its_end(inside):
	assert inside(COUNT + """
import asyncio
@mtshim.round_scope()
async def train():
	await asyncio.sleep(0)
	return count()
print(asyncio.run(train()), count())
""") == "0 1"


def test_the_allocator_is_the_embedded_one_once_the_process_has_grown(inside):
	assert inside(HOARD + "import mtshim; print(mtshim.allocator())") == "jemalloc"


def test_stats_are_the_figures_of_the_c_interface(inside):
	header = (ROOT / "shim/mtshim.h").read_text()
	struct = re.search(r"struct mt_stats \{(.*?)\};", header, re.DOTALL)[1]

	fields = inside("import dataclasses, mtshim; print(*(field.name for field in dataclasses.fields(mtshim.Stats)))").split()

	assert ["size_bytes", *fields] == [*re.findall(r"uint64_t (\w+);", struct), "active"]


def test_stats_agree_with_the_kernel(inside):
	"""The figure is that of the worker's last tick, and the worker may be purging."""
	told, kernel = map(int, inside(HOARD + """
import mtshim, re, time
for _ in range(50):
	told, kernel = mtshim.stats().rss_bytes, int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10
	if abs(told - kernel) < 4 << 20:
		break
	time.sleep(0.1)
print(told, kernel)
""").split())

	assert abs(told - kernel) < 4 * MB


def test_a_child_of_a_process_that_uses_the_package_uses_it_too(inside):
	assert inside("""
import mtshim, multiprocessing
def child(out):
	out.put((mtshim.is_active(), mtshim.round()))
mtshim.round()
context = multiprocessing.get_context("fork")
out = context.Queue()
context.Process(target=child, args=(out,)).start()
print(*out.get())
""").startswith("True ")


# ---- import mtshim, without the library ----

NOTHING = """
import mtshim
with mtshim.round_scope():
	pass
print(mtshim.is_active(), mtshim.trim(), mtshim.round(), mtshim.stats().rss_bytes, mtshim.stats().active, mtshim.stats().rounds_count)
"""


def test_without_the_library_every_call_does_nothing(python):
	assert python(NOTHING) == "False 0 0 0 False 0"
	assert python("import mtshim; print(mtshim.allocator())") == "unknown"


def test_with_the_library_switched_off_every_call_does_nothing(inside):
	assert inside(NOTHING, MT_ENABLE="0") == "False 0 0 0 False 0"


@pytest.mark.parametrize("where", ["python", "inside"])
def test_a_level_that_does_not_exist_is_an_error_with_and_without_the_library(where, request):
	said = request.getfixturevalue(where)("""
import mtshim
try:
	mtshim.trim("havy")
except ValueError as error:
	print(error)
""")

	assert said == "level is 'havy'; it must be one of purge, light, heavy"


@pytest.mark.parametrize("level", ["None", "2", "[]", "{}"])
def test_a_level_of_another_type_is_the_same_error(level, python):
	assert python(f"import mtshim\ntry:\n\tmtshim.trim({level})\nexcept ValueError:\n\tprint('ValueError')") == "ValueError"


def test_the_types_can_be_read_by_programs_and_a_misspelt_name_is_found_by_checkers(python):
	assert python("import mtshim, typing; print(typing.get_type_hints(mtshim.stats)['return'] is mtshim.Stats)") == "True"
	seen = ast.parse((SOURCES[0].parent / "__init__.py").read_text()).body
	assert "__getattr__" not in [name for one in seen for name in (getattr(one, "name", None),
	                                                             *(getattr(target, "id", None) for target in getattr(one, "targets", [])))]


def test_pytest_says_nothing_of_a_package_that_was_imported_before_it(bin_dir, plain, run, tmp_path):
	"""The plugin is an entry point: pytest rewrites assertions of such packages, and warns where it is too late."""
	others = "".join(f", '-p', 'no:{name}'" for name in ("cacheprovider", "anyio", "hypothesispytest", "xdist", "xdist.looponfail"))
	text = f"import mtshim, mtshim.integrations, pytest; pytest.main(['-W', 'error'{others}])"
	got = run([bin_dir / "python", "-W", "error::pytest.PytestAssertRewriteWarning", "-c", text],
	          dict(plain, PYTHONPATH="/usr/lib/python3/dist-packages"), cwd=tmp_path)

	assert "no tests ran" in got.stdout and "mtshim-" in got.stdout and "PytestAssertRewriteWarning" not in got.stdout + got.stderr


def test_the_path_of_the_library_is_for_the_loader(python, package, shim):
	asked = "import mtshim; print(mtshim.library_path())"

	assert python(asked) == str(package / "bin/libmtshim.so")
	assert python(asked, MTSHIM_LIBRARY=str(shim)) == str(shim)
	assert python("import mtshim\ntry:\n\tmtshim.library_path()\nexcept FileNotFoundError as error:\n\tprint(error)",
	              MTSHIM_LIBRARY="/no/such.so") == "/no/such.so is not there"


def test_the_import_takes_less_than_ten_milliseconds(bin_dir, plain, run):
	def cost_us():
		lines = run([bin_dir / "python", "-X", "importtime", "-c", "import mtshim"], plain).stderr
		return int(re.search(r"\|\s+(\d+) \| mtshim$", lines, re.MULTILINE)[1])

	assert min(cost_us() for _ in range(5)) < 10000


def test_the_version_is_that_of_the_wheel(python):
	assert python("import mtshim; print(mtshim.__version__)") == VERSION
