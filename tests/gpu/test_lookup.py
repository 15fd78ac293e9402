"""The roads to libcuda: dlsym, dlvsym and cuGetProcAddress as the shim answers them, and everybody else's dlsym unchanged.

The driver is lookup_driver.c, a libcuda.so.1 in which things can only be found."""
import os
import pathlib
import platform
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SHIM = ROOT / "shim"
MACHINE = platform.machine()
BASE = {"x86_64": "GLIBC_2.2.5", "aarch64": "GLIBC_2.17"}.get(MACHINE)
LIBRARY = ["-shared", "-fPIC"]
# Hundreds of functions that return a number, or calls of them: without optimisation and debug information they compile in a third of the time.
LIGHT = ["-O0", "-g0"]
DRIVER = [*LIBRARY, *LIGHT, "-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1"]
# As the Makefile compiles them: they run before the loader, or a sanitizer, is ready.
EARLY = ["sys/loader.c", "heap/dlsym.c"]
LATE = ["sys/format.c", "sys/loader_gate.c", "sys/os.c", "sys/raw_syscall.c", "gpu/driver.c", "gpu/lookup.c", "gpu/lookup_stubs.S",
        "heap/dlsym_entries.S"]
PARTS_FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-fPIC", "-fvisibility=hidden", "-pthread", f"-I{SHIM}"]


@pytest.fixture
def driver(compile_c, tmp_path):
	"""driver(*flags): a folder with the stand-in under the name libcuda.so.1, and its path there."""
	def make(*flags):
		folder = tmp_path / f"driver{len(list(tmp_path.iterdir()))}"
		folder.mkdir()
		link = folder / "libcuda.so.1"
		if "VERSIONED" in flags:
			script = folder / "map"
			script.write_text("LIBCUDA_1 { global: cu*; local: *; };\n")
			flags = (f"-Wl,--version-script={script}",)
		link.symlink_to(compile_c("lookup_driver.c", *DRIVER, *[word.replace("LINK", str(link)) for word in flags]))
		return link
	return make


def roads(run, environment, program, *words):
	done = run([program, *words], environment, timeout=30)
	assert done.returncode == 0, done.stdout + done.stderr
	assert int(done.stdout.split()[0]) > 250, done.stdout


@pytest.mark.parametrize("how", ["local", "global", "deep"])
def test_each_wrapped_name_is_ours_and_each_other_is_the_drivers_own(how, compile_c, run, bare, env, driver):
	program, library = compile_c("lookup_roads.c", *LIGHT), driver()
	roads(run, bare, program, "plain", library, how)
	roads(run, env(), program, "wrapped", library, how)


def test_a_driver_whose_resolver_hands_out_other_addresses_is_told_by_name_and_version(compile_c, run, bare, env, driver):
	program, library = compile_c("lookup_roads.c", *LIGHT), driver("-DINNER")
	roads(run, bare, program, "plain", library)
	roads(run, env(), program, "wrapped", library)


def test_dlvsym_is_answered_like_dlsym(compile_c, run, bare, env, driver):
	program, library = compile_c("lookup_roads.c", *LIGHT), driver("VERSIONED")
	roads(run, bare, program, "plain", library, "global", "LIBCUDA_1")
	roads(run, env(), program, "wrapped", library, "global", "LIBCUDA_1")


def test_two_names_of_one_address_are_told_apart_by_the_name_asked_for(compile_c, run, env, driver):
	roads(run, env(), compile_c("lookup_roads.c", *LIGHT), "wrapped", driver("-DALIASES"), "aliases")


def test_a_program_linked_to_the_driver_is_bound_to_us(compile_c, run, bare, env, driver):
	library = driver()
	program = compile_c("lookup_roads.c", *LIGHT, "-DLINKED", compile_c("lookup_driver.c", *DRIVER))
	for environment, mode in ((bare, "plain"), (env(), "wrapped")):
		roads(run, dict(environment, LD_LIBRARY_PATH=str(library.parent)), program, mode)


def test_a_driver_under_another_name_works_through_dlsym_alone(compile_c, run, env, driver, tmp_path):
	other = tmp_path / "libcuda.so.550.1"
	other.symlink_to(driver().resolve())
	roads(run, env(), compile_c("lookup_roads.c", *LIGHT), "wrapped", other)


def test_a_second_copy_of_the_driver_keeps_its_own_pointers(compile_c, run, env, driver):
	first, second = driver(), driver("-DSECOND")
	program = compile_c("lookup_copies.c")
	done = run([program, first, second], env())
	assert done.stdout.split() == ["shim", "driver"], done.stdout + done.stderr


@pytest.mark.parametrize("setting", ["MT_CUDA=off", "MT_ENABLE=0"])
def test_no_name_is_replaced_when_the_shim_is_off(setting, compile_c, run, env, driver):
	roads(run, env(**dict([setting.split("=")])), compile_c("lookup_roads.c", *LIGHT), "plain", driver(), "global")


# Found by review: it made itself the asker, and what came after it was ourselves again, for ever.
@pytest.mark.parametrize("order", ["before", "behind"])
@pytest.mark.parametrize("command", [["/bin/ls", "/"], ["/usr/bin/python3", "-c", "import ctypes; print(ctypes.CDLL(None).mt_round())"]])
def test_another_preloaded_dlsym_that_calls_libcs_does_not_hang_us(command, order, compile_c, run, env, shim):
	hooker = compile_c("lookup_hooker.c", *LIBRARY)
	preload = [hooker, shim] if order == "before" else [shim, hooker]
	done = run(command, dict(env(), LD_PRELOAD=":".join(map(str, preload))), timeout=20)
	assert done.returncode == 0 and done.stdout.strip(), done.stderr


# HAMi-core and its like: the limits that they set must go on holding.
@pytest.mark.parametrize("settings", [{}, {"ENABLE": 0}, {"CUDA": "off"}])
def test_another_dlsym_behind_ours_is_handed_what_is_not_ours(settings, compile_c, run, env, shim):
	ask = "import ctypes; print(hex(ctypes.cast(ctypes.CDLL(None).mt_test_sentinel, ctypes.c_void_p).value))"
	preload = f"{shim}:{compile_c('lookup_hooker.c', *LIBRARY)}"
	done = run(["/usr/bin/python3", "-c", ask], dict(env(**settings), LD_PRELOAD=preload), timeout=20)
	assert done.stdout == "0x5eed\n", done.stderr


# A libcudart asks once and keeps the answer: it may do so before our constructor, where another malloc is bound before ours.
@pytest.mark.parametrize("first", ["libtcmalloc_minimal.so.4", "libjemalloc.so.2", None])
def test_a_constructor_that_asks_before_ours_is_given_our_wrapper(first, compile_c, run, env, driver, shim):
	early = compile_c("lookup_constructor.c", *LIBRARY)
	preload = [word for word in (first, shim, early) if word]
	done = run(["/bin/true"], dict(env(), LD_PRELOAD=":".join(map(str, preload)), DRIVER=str(driver())), timeout=20)
	assert done.returncode == 0 and done.stdout == f"{shim}\n", done.stdout + done.stderr


def test_a_library_opened_local_finds_its_driver_through_rtld_default(compile_c, run, bare, env, driver, shim):
	library = driver()
	flags = [*LIBRARY, "-DLIBRARY", compile_c("lookup_driver.c", *DRIVER)]
	program, asker = compile_c("lookup_local.c"), compile_c("lookup_local.c", *flags)
	answers = []
	for environment in (bare, env()):
		done = run([program, asker], dict(environment, LD_LIBRARY_PATH=str(library.parent)))
		answers.append(done.stdout.split("\n"))
	assert len(answers[0]) == 8 and "none with a message" in answers[0][4], answers[0]
	named = [line.replace(shim.name, "libcuda.so.1") if "cuLaunch" not in line else line for line in answers[1]]
	assert named == answers[0]
	assert answers[1][1] == f"cuMemAlloc_v2 {shim.name}"


def test_a_driver_that_asks_dlsym_in_its_constructor_is_answered(compile_c, run, env, driver):
	library = driver("-DCONSTRUCTOR", '-DPATH="LINK"')
	roads(run, env(), compile_c("lookup_roads.c", *LIGHT), "wrapped", library)


# ---- every name that a whole driver exports ----

def toolkit_stub():
	for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda", "/usr/lib/cuda"):
		for folder in ("lib64/stubs", "lib/stubs", "lib/x86_64-linux-gnu/stubs"):
			path = pathlib.Path(home or "/nowhere") / folder / "libcuda.so"
			if path.exists():
				return path.resolve()
	return None


def wrapped_names():
	text = (SHIM / "gpu" / "driver.def").read_text()
	parts = [part for part in text.split("#define ") if not part.startswith("MT_DRIVER_CALLED(")]
	rows = re.findall(r"^\t(?:X|MT_(PTSZ|PTDS)(?:_FLAG)?)\((?:X, )?(cu\w+),", "".join(parts), re.MULTILINE)
	names = {name for _, name in rows} | {f"{name}_{twin.lower()}" for twin, name in rows if twin}
	assert len(names) > 50
	return names


@pytest.mark.parametrize("which", ["fake", "toolkit"])
def test_every_export_that_we_do_not_wrap_is_the_drivers_own_by_every_road(which, compile_c, run, bare, env, shim):
	library = shim.parent / "tests/fakecuda/13.0/libcuda.so.1" if which == "fake" else toolkit_stub()
	if not library or not library.exists():
		pytest.skip(f"no {which} driver here")
	listed = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
	symbols = {line.split()[2].split("@")[0]: int(line.split()[0], 16) for line in listed.split("\n") if len(line.split()) == 3}
	names = sorted(name for name in symbols if name.startswith("cu"))
	wrapped = {symbols[name] for name in wrapped_names() if name in symbols}
	program = compile_c("lookup_exports.c")
	plain = run([program, library], bare, input="\n".join(names)).stdout.split("\n")
	shimmed = run([program, library], env(), input="\n".join(names)).stdout.split("\n")
	assert len(names) > 100 and len(plain) == len(shimmed) > 2 * len(names)
	replaced = 0
	for before, after in zip(plain, shimmed):
		found = re.fullmatch(r"(.*) driver (0x[0-9a-f]+)", before)
		if not found or int(found.group(2), 16) not in wrapped:
			assert after == before
			continue
		replaced += 1
		same = re.fullmatch(re.escape(found.group(1)) + r" shim (cu\w+)", after)
		assert same and symbols[same.group(1)] == int(found.group(2), 16), f"{before} became {after}"
	assert replaced >= 2 * len(wrapped)


# ---- who asks ----

@pytest.fixture
def callers(compile_c):
	"""callers(*flags): the program that asks, the words it needs, and the library that is to be preloaded."""
	def make(*flags):
		flags = [f'-DBASE="{BASE}"', *flags]
		library = {who: compile_c("lookup_caller.c", *LIBRARY, f"-DWHO={who}", *flags) for who in (2, 3, 4)}
		program = compile_c("lookup_caller.c", "-DWHO=1", *flags, library[2])
		return [program, library[3]], library[4]
	return make


@pytest.mark.parametrize("bound", ["-DNEW", "-DOLD"])
def test_every_caller_gets_what_it_gets_without_the_shim(bound, callers, run, bare, env):
	command, _ = callers(bound)
	plain, shimmed = run(command, bare), run(command, env())
	assert plain.returncode == 0 and len(plain.stdout.split("\n")) > 200
	assert shimmed.stdout == plain.stdout


@pytest.mark.parametrize("order", ["{shim}:{other}", "{other}:{shim}"])
def test_a_library_preloaded_before_or_behind_us_asks_in_its_constructor(order, callers, run, bare, env, shim):
	command, other = callers()
	plain = run(command, dict(bare, LD_PRELOAD=str(other)))
	shimmed = run(command, dict(env(), LD_PRELOAD=order.format(shim=shim, other=other)))
	assert "4 in a constructor" in plain.stdout
	assert shimmed.stdout == plain.stdout


def test_dlsym_works_before_the_loader_has_relocated_us(compile_c, run, env):
	flags = ["-fno-plt", "-Wl,-z,now"]
	library = compile_c("lookup_early.c", *LIBRARY, "-DLIBRARY", *flags)
	program = compile_c("lookup_early.c", *flags, library)
	done = run([program], env())
	assert done.stdout == "library 1, program 1, preinit 1\n", done.stderr


# ---- the parts alone, in every build type ----

@pytest.fixture
def parts(tmp_path):
	"""parts(name, flags, extra): the look-up's objects as one preloadable file, or with extra as a program."""
	def make(name, flags, extra=()):
		script = tmp_path / "parts.map"
		script.write_text("MTSHIM {};\n")
		objects = []
		for source in EARLY:
			objects.append(tmp_path / (source.replace("/", "_") + ".o"))
			optimise = [flag for flag in flags if flag.startswith("-O")]
			subprocess.run(["gcc", *PARTS_FLAGS, *optimise, "-fno-stack-protector", "-c", SHIM / source, "-o", objects[-1]],
			               check=True)
		out = tmp_path / name
		subprocess.run(["gcc", *PARTS_FLAGS, *flags, f"-Wl,--version-script={script}", "-o", out, *extra, *objects,
		                *[SHIM / source for source in LATE], ROOT / "tests/gpu/lookup_doubles.c"], check=True)
		return out
	return make


@pytest.mark.slow
@pytest.mark.parametrize("flags", ["-O2", *(pytest.param(flags, marks=pytest.mark.long) for flags in (
	"-O0", "-Og", "-O1", "-O2 -fcf-protection=full", "-O1 -fsanitize=address,undefined"))])
def test_dlsym_is_a_jump_in_every_build_type(flags, parts, callers, compile_c, run, bare, driver):
	library = parts("libparts.so", ["-shared", *flags.split()])
	before = ""
	if "address" in flags:
		before = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True).stdout.strip()
	command, _ = callers()
	environment = dict(bare, ASAN_OPTIONS="detect_leaks=0")
	plain = run(command, dict(environment, LD_PRELOAD=before))
	shimmed = run(command, dict(environment, LD_PRELOAD=f"{before}:{library}"))
	assert plain.returncode == 0 and len(plain.stdout.split("\n")) > 200
	assert shimmed.stdout == plain.stdout
	roads(run, dict(environment, LD_PRELOAD=f"{before}:{library}", LOOKUP_SHIM=str(library)), compile_c("lookup_roads.c", *LIGHT),
	      "wrapped", driver())


def test_threads_whose_first_calls_meet_all_get_the_right_answers_under_a_thread_checker(parts, run, bare, driver):
	program = parts("storm", ["-O1", "-fsanitize=thread"], [ROOT / "tests/gpu/lookup_storm.c"])
	done = run([program, driver()], bare, timeout=60)
	assert done.returncode == 0 and done.stdout == "0 wrong\n", done.stdout + done.stderr


def test_the_table_of_the_driver_keeps_its_contract(parts, run, bare, driver):
	done = run([parts("binding", ["-O0"], [ROOT / "tests/gpu/lookup_binding.c"]), driver()], bare)
	assert done.returncode == 0 and done.stdout == "0 broken\n", done.stdout + done.stderr


# ---- sanitizers' runtimes, which ask dlsym for what they wrap before anybody else is there ----

@pytest.mark.parametrize("flags, preload", [
	("-fsanitize=address", "{asan}:{shim}"),
	("-fsanitize=address -static-libasan", "{shim}"),
	("-fsanitize=thread", "{shim}"),
	("-fsanitize=undefined", "{shim}"),
	("-O1", "{asan}:{shim}"),
])
def test_a_sanitizers_runtime_starts(flags, preload, compile_c, run, env, shim):
	asan = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True).stdout.strip()
	program = compile_c("lookup_sanitized.c", *flags.split())
	environment = dict(env(), LD_PRELOAD=preload.format(asan=asan, shim=shim), ASAN_OPTIONS="detect_leaks=0")
	done = run([program], environment)
	assert (done.returncode, done.stdout) == (0, "found\n"), done.stderr


# ---- what a process without CUDA pays ----

def test_a_program_without_a_driver_makes_no_call_for_one(run, env):
	if not shutil.which("strace"):
		pytest.skip("strace is not there")
	done = run(["strace", "-E", "LD_PRELOAD=" + env()["LD_PRELOAD"], "-e", "trace=file,read", "/bin/true"],
	           {name: value for name, value in env().items() if name != "LD_PRELOAD"})
	assert done.returncode == 0
	assert "cuda" not in done.stderr and "auxv" not in done.stderr, done.stderr
