"""Who holds the heap: jemalloc's profiler made ready by MT_PROF, switched by mtctl set, and read by mtctl sites."""
import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import zlib

import pytest

import leftovers
from json_schema import fits
from mtctl_helpers import NOTHING, USAGE
from people import needs_root, person, stage  # noqa: F401 (fixtures)

pytestmark = pytest.mark.slow

LEAK_USABLE = 100000 * 448  # sites_leak.c: blocks of 400 bytes take 448 each
READY = "start the program with MT_PROF=on"


@pytest.fixture
def leak(steer, compile_c, env, awake):
	"""leak(**settings): sites_leak.c under the shim, awake; .env is its environment."""
	def start(**settings):
		one = steer([compile_c("sites_leak.c")], env(MIN_MB=0, **settings))
		assert one.process.stdout.readline() == "ready\n"
		awake(one.pid, one.env)
		return one
	return start


def sites_json(control, one, *words):
	done = control(one.env, "sites", one.pid, "--json", *words)
	assert done.returncode == 0, done.stderr
	return fits("sites", done.stdout)


def switch(control, one, value):
	done = control(one.env, "set", one.pid, f"prof={value}")
	assert done.returncode == 0, done.stderr
	return done.stdout


# ---- a leak among decoys ----

def test_the_top_site_is_the_leaking_function_with_the_right_bytes(leak, control, stats):
	one = leak(PROF=1, MT_MALLOC_CONF="lg_prof_sample:15")
	assert stats(one.pid, one.env)["prof_state"] == 1
	assert switch(control, one, "on") == "prof: off -> on\n"
	assert stats(one.pid, one.env)["prof_state"] == 2
	assert one.tell("go").startswith("done ")

	seen = sites_json(control, one)

	top = seen["sites"][0]
	assert top["where"].startswith("leak_here at sites_leak.c:"), seen
	assert 0.75 * LEAK_USABLE < top["bytes"] < 1.25 * LEAK_USABLE
	assert 75000 < top["blocks_count"] < 125000
	assert top["frames"][1].startswith("main at sites_leak.c:")
	names = [site["where"].split()[0] for site in seen["sites"]]
	assert "decoy_churns" not in names, "all that it has allocated is freed"
	assert "early_block" not in names, "what was there before cannot be seen"
	assert not any("libmtshim" in frame or "je_malloc" in frame for frame in top["frames"])
	assert stats(one.pid, one.env)["prof_dumps_count"] == 1
	text = control(one.env, "sites", one.pid, "--top=1").stdout
	assert "leak_here at sites_leak.c:" in text and "1. " in text and "2. " not in text


def test_it_can_sample_from_the_start(leak, control):
	one = leak(PROF="on", MT_MALLOC_CONF="lg_prof_sample:15")

	seen = sites_json(control, one)

	assert seen["sites"][0]["where"].startswith("early_block at sites_leak.c:"), seen
	assert 60 << 20 < seen["sites"][0]["bytes"] < 80 << 20


def test_a_difference_shows_what_grows_and_nothing_else(leak, control, mtctl):
	one = leak(PROF="on", MT_MALLOC_CONF="lg_prof_sample:15")
	differ = subprocess.Popen([mtctl, "sites", str(one.pid), "--diff=1.5", "--json"], env=bare_of(one),
	                          stdout=subprocess.PIPE, text=True)
	time.sleep(0.7)
	one.tell("go")
	out, _ = differ.communicate(timeout=20)

	seen = fits("sites", out)
	assert seen["kind"] == "growth" and seen["over_ms"] >= 1500
	assert seen["sites"][0]["where"].startswith("leak_here ")
	assert 0.75 * LEAK_USABLE < seen["sites"][0]["bytes"] < 1.25 * LEAK_USABLE
	assert not any(site["where"].startswith("early_block") for site in seen["sites"])
	quiet = control(one.env, "sites", one.pid, "--diff=0.2")
	assert quiet.returncode == NOTHING


def bare_of(one):
	return {name: value for name, value in one.env.items() if name != "LD_PRELOAD"}


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_diagnose_that_is_ended_early_switches_it_off_again(leak, mtctl, stats, wait_for, end):
	one = leak(PROF=1)
	# Who runs these tests by nohup has SIGHUP ignored, and so would mtctl.
	look = subprocess.Popen([mtctl, "diagnose", str(one.pid), "--for=60s"], env=bare_of(one), stdout=subprocess.DEVNULL,
		preexec_fn=lambda: signal.signal(end, signal.SIG_DFL))
	wait_for(lambda: stats(one.pid, one.env)["prof_state"] == 2)

	look.send_signal(end)

	look.wait(timeout=20)
	assert stats(one.pid, one.env)["prof_state"] == 1


def test_a_user_who_switches_it_on_during_a_diagnose_keeps_it(leak, mtctl, control, stats, wait_for):
	one = leak(PROF=1)
	look = subprocess.Popen([mtctl, "diagnose", str(one.pid), "--for=60s"], env=bare_of(one), stdout=subprocess.DEVNULL)
	wait_for(lambda: stats(one.pid, one.env)["prof_state"] == 2)

	assert switch(control, one, "on") == "prof: off -> on\n"
	look.terminate()

	look.wait(timeout=20)
	assert stats(one.pid, one.env)["prof_state"] == 2
	assert switch(control, one, "off") == "prof: on -> off\n"
	assert stats(one.pid, one.env)["prof_state"] == 1


def test_sampling_for_a_diagnose_that_was_killed_ends_by_itself(leak, run, compile_c, stats, wait_for, mt_dir):
	"""A diagnose asks for a minute with each sample; this one for 1.5 s, and is not heard of again."""
	one = leak(PROF=1)
	files = {path.suffix: path for path in mt_dir.iterdir()}

	assert run([compile_c("sites_classes.c"), files[".control"], files[".stats"], "7 1500"]).returncode == 0

	wait_for(lambda: stats(one.pid, one.env)["prof_state"] == 1)
	assert next(row for row in stats(one.pid, one.env)["settings"] if row["name"] == "prof")["value"] == "1"


def test_a_program_with_several_names_has_the_one_by_which_it_runs(steer, compile_c, env, awake, control, tmp_path):
	program, run_as = tmp_path / "leaks-check-rdb", tmp_path / "leaks-server"
	shutil.copy(compile_c("sites_leak.c"), program)
	subprocess.run(["strip", program], check=True)
	run_as.symlink_to(program)
	one = steer([run_as], env(MIN_MB=0, PROF="on", MT_MALLOC_CONF="lg_prof_sample:15"))
	assert one.process.stdout.readline() == "ready\n"
	awake(one.pid, one.env)

	frames = [frame for site in sites_json(control, one)["sites"] for frame in site["frames"]]

	assert any(frame.endswith(" in leaks-server") for frame in frames), frames
	assert not any("check-rdb" in frame for frame in frames)


# ---- other formats ----

def test_folded_stacks_are_outermost_first(leak, control):
	one = leak(PROF="on", MT_MALLOC_CONF="lg_prof_sample:15")
	one.tell("go")

	lines = control(one.env, "sites", one.pid, "--folded", "--top=0").stdout.splitlines()

	line = next(line for line in lines if "leak_here" in line)
	stack, _, count = line.rpartition(" ")
	frames = stack.split(";")
	assert frames[-1].startswith("leak_here ") and any(frame.startswith("main ") for frame in frames[:-1])
	assert 0.75 * LEAK_USABLE < int(count) < 1.25 * LEAK_USABLE


def varint(data, at):
	value = shift = 0
	while True:
		value |= (data[at] & 0x7f) << shift
		shift += 7
		at += 1
		if not data[at - 1] & 0x80:
			return value, at


def fields(data):
	"""The fields of a protobuf message, as (number, value)."""
	at = 0
	while at < len(data):
		key, at = varint(data, at)
		assert key & 7 in (0, 2), "only numbers and bytes are written"
		if key & 7 == 0:
			value, at = varint(data, at)
		else:
			length, at = varint(data, at)
			value, at = data[at:at + length], at + length
			assert len(value) == length
		yield key >> 3, value


def test_the_profile_for_pprof_says_the_same(leak, control, tmp_path):
	one = leak(PROF="on", MT_MALLOC_CONF="lg_prof_sample:15")
	one.tell("go")
	path = tmp_path / "heap.pb.gz"

	done = control(one.env, "sites", one.pid, "--json", "--top=0", f"--pprof={path}")

	assert path.stat().st_mode & 0o777 == 0o600
	seen = json.loads(done.stdout)
	profile = list(fields(gzip.decompress(path.read_bytes())))
	strings = [value.decode() for number, value in profile if number == 6]
	assert strings[0] == ""
	types = [[strings[value] for _, value in fields(message)] for number, message in profile if number == 1]
	assert types == [["inuse_objects", "count"], ["inuse_space", "bytes"]]
	functions = {}
	for number, message in profile:
		if number == 5:
			function = dict(fields(message))
			functions[function[1]] = strings[function[2]]
	locations = {}
	for number, message in profile:
		if number == 4:
			location = dict(fields(message))
			locations[location[1]] = functions[dict(fields(location[4]))[1]]
	samples = []
	for number, message in profile:
		if number == 2:
			parts = list(fields(message))
			samples.append(([locations[value] for kind, value in parts if kind == 1],
			                [value for kind, value in parts if kind == 2]))
	assert samples == [(site["frames"], [site["blocks_count"], site["bytes"]]) for site in seen["sites"]]
	assert dict(profile)[12] == seen["rate_bytes"] == 1 << 15


# ---- where there is none ----

def test_without_mt_prof_it_is_refused_with_the_sentence(leak, control, stats):
	one = leak()

	for words in (["sites", one.pid], ["set", one.pid, "prof=on"]):
		done = control(one.env, *words)
		assert (done.returncode, done.stdout) == (NOTHING, "")
		assert READY in done.stderr
	seen = stats(one.pid, one.env)
	assert (seen["prof_state"], seen["prof_dumps_count"]) == (0, 0)
	assert next(row for row in seen["settings"] if row["name"] == "prof")["value"] == "0"


def test_another_allocator_is_said_to_have_none(leak, control):
	one = leak(PROF=1, ALLOCATOR="system")

	done = control(one.env, "set", one.pid, "prof=on")

	assert done.returncode == NOTHING and "MT_ALLOCATOR=jemalloc" in done.stderr


def test_a_profiler_that_is_ready_says_how_to_switch_it_on(leak, control):
	one = leak(PROF=1)

	done = control(one.env, "sites", one.pid)

	assert done.returncode == NOTHING
	assert f"mtctl set {one.pid} prof=on" in done.stderr


def test_switched_off_it_keeps_what_it_has(leak, control, stats):
	one = leak(PROF="on", MT_MALLOC_CONF="lg_prof_sample:15")

	assert switch(control, one, "off") == "prof: on -> off\n"
	assert stats(one.pid, one.env)["prof_state"] == 1
	one.tell("go")

	done = control(one.env, "sites", one.pid)
	assert done.returncode == 0 and "does not sample any more" in done.stdout
	assert "early_block" in done.stdout and "leak_here" not in done.stdout


def test_wrong_use(leak, control):
	one = leak(PROF="on")

	for words in (["--top=x"], ["--diff=0"], ["--diff=x"], ["--no-such"], ["more"], ["--pprof=/proc/no/such"]):
		assert control(one.env, "sites", one.pid, *words).returncode == USAGE, words


def test_unset_it_is_not_even_mentioned_to_jemalloc(leak, stats):
	"""Not a word in its settings, nobody has looked for an unwinder: so it costs nothing."""
	one = leak()

	assert "prof" not in stats(one.pid, one.env)["conf"]
	assert "libgcc_s" not in open(f"/proc/{one.pid}/maps", encoding="ascii").read()


def test_the_unwinder_is_loaded_when_it_is_switched_on(leak, control):
	one = leak(PROF=1)
	maps = f"/proc/{one.pid}/maps"

	assert "libgcc_s" not in open(maps, encoding="ascii").read()
	switch(control, one, "on")
	assert "libgcc_s" in open(maps, encoding="ascii").read()


def test_without_libdw_names_are_offsets(leak, control, tmp_path):
	one = leak(PROF="on", MT_MALLOC_CONF="lg_prof_sample:15")
	(tmp_path / "libdw.so.1").write_text("no library")

	done = control(dict(one.env, LD_LIBRARY_PATH=str(tmp_path)), "sites", one.pid, "--json")

	assert done.returncode == 0, done.stderr
	where = json.loads(done.stdout)["sites"][0]["where"]
	assert re.fullmatch("0x[0-9a-f]+ in sites_leak.*", where)


def with_libdw_of(does, one, tmp_path):
	"""What mtctl sites says where libdw is our stand-in."""
	source = pathlib.Path(__file__).with_name("sites_libdw.c")
	subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libdw.so.1", source], check=True)
	return dict(one.env, LD_LIBRARY_PATH=str(tmp_path), SITES_LIBDW=does)


def test_files_of_others_are_read_by_nobody_where_root_asks(leak, control, tmp_path):
	one = leak(PROF="on", MT_MALLOC_CONF="lg_prof_sample:15")

	done = control(with_libdw_of("user", one, tmp_path), "sites", one.pid, "--json")

	assert done.returncode == 0, done.stderr
	user = os.geteuid() or 65534
	assert json.loads(done.stdout)["sites"][0]["where"].startswith(f"user_{user} in ")


def test_a_file_that_libdw_does_not_survive_costs_the_names(leak, control, tmp_path):
	one = leak(PROF="on", MT_MALLOC_CONF="lg_prof_sample:15")

	done = control(with_libdw_of("crash", one, tmp_path), "sites", one.pid, "--json")

	assert done.returncode == 0, done.stderr
	assert re.fullmatch("0x[0-9a-f]+ in sites_leak.*", json.loads(done.stdout)["sites"][0]["where"])


def test_a_file_that_libdw_does_not_survive_costs_no_other_files_names(leak, control, tmp_path):
	one = leak(PROF="on", MT_MALLOC_CONF="lg_prof_sample:15")

	done = control(with_libdw_of("crash:sites_leak", one, tmp_path), "sites", one.pid, "--json")

	frames = json.loads(done.stdout)["sites"][0]["frames"]
	assert re.fullmatch("0x[0-9a-f]+ in sites_leak.*", frames[0])
	assert any(frame.startswith("user_") and " in libc" in frame for frame in frames), frames


def test_the_child_that_reads_files_of_others_is_bounded_and_killed_first(leak, control, tmp_path):
	"""1 GB of address space, OOM score 1000, and no open but one that looks at the file first and does not wait: EACCES."""
	one = leak(PROF="on", MT_MALLOC_CONF="lg_prof_sample:15")

	done = control(with_libdw_of("bounds", one, tmp_path), "sites", one.pid, "--json")

	assert json.loads(done.stdout)["sites"][0]["where"].startswith("oom_1000_as_1024M_open_13 in ")


# ---- files that are made for it ----

SHF_COMPRESSED, ELFCOMPRESS_ZLIB = 1 << 11, 1


@pytest.fixture
def folder():
	"""One that nobody may look into, too: so who reads the files is called where root asks."""
	place = pathlib.Path(tempfile.mkdtemp(prefix=leftovers.prefix()))
	place.chmod(0o755)
	yield place
	shutil.rmtree(place)


@pytest.fixture
def leak_of(steer, env, awake):
	"""leak_of(program): as leak, of a program that somebody has made."""
	def start(program):
		one = steer([program], env(MIN_MB=0, PROF="on", MT_MALLOC_CONF="lg_prof_sample:15"))
		assert one.process.stdout.readline() == "ready\n"
		awake(one.pid, one.env)
		return one
	return start


def run_all(*commands):
	for words in commands:
		subprocess.run([str(word) for word in words], check=True, capture_output=True)


def split_debug(compile_c, folder, *flags):
	"""A program without a symbol, and the file with all of them that it names."""
	program, debug = folder / "program", folder / "program.debug"
	built = compile_c("sites_leak.c", *flags)
	run_all(["objcopy", "--only-keep-debug", built, debug],
	        ["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", built, program])
	return program, debug


def split_units(compile_c, folder):
	"""A program whose line table is in a file that each of its units names."""
	source = pathlib.Path(__file__).with_name("sites_leak.c")
	subprocess.run(["gcc", "-O1", "-g", "-gsplit-dwarf", "-D_GNU_SOURCE", "-fno-builtin", "-o", "program", source], cwd=folder, check=True)
	return folder / "program", next(folder.glob("*.dwo"))


@pytest.mark.parametrize("place, flags", [("", []), (".debug", []), ("", ["-Wl,--build-id=none"])], ids=["beside", "below", "by-crc"])
def test_names_come_from_the_file_that_a_program_without_symbols_names(leak_of, control, compile_c, folder, place, flags):
	program, debug = split_debug(compile_c, folder, *flags)
	(folder / place).mkdir(exist_ok=True)
	debug.rename(folder / place / debug.name)
	one = leak_of(program)

	assert sites_json(control, one)["sites"][0]["where"].startswith("early_block at sites_leak.c:")


@pytest.mark.parametrize("flags", [[], ["-Wl,--build-id=none"]], ids=["by-id", "by-crc"])
def test_a_file_of_debugging_information_that_belongs_to_something_else_is_not_taken(leak_of, control, compile_c, folder, flags):
	program, debug = split_debug(compile_c, folder, *flags)
	run_all(["objcopy", "--only-keep-debug", compile_c("puppet.c", *flags), debug])
	one = leak_of(program)

	assert re.fullmatch("0x[0-9a-f]+ in program", sites_json(control, one)["sites"][0]["where"])


def test_a_program_larger_than_the_address_space_of_its_reader_keeps_its_names(leak_of, control, compile_c, folder):
	shutil.copy(compile_c("sites_leak.c"), folder / "program")
	os.truncate(folder / "program", 3 << 30)
	one = leak_of(folder / "program")

	assert sites_json(control, one)["sites"][0]["where"].startswith("early_block at sites_leak.c:")


def decoy_of(compile_c, place):
	"""The same program, with another name where the leak is."""
	run_all(["objcopy", "--strip-debug", "--redefine-sym", "early_block=a_wrong_name", compile_c("sites_leak.c"), place])


def without_map_files(mtctl):
	"""As root in a container that may trace other programs, and no more."""
	return ["setpriv", "--bounding-set", "-sys_admin,-checkpoint_restore", mtctl]


@needs_root
@pytest.mark.parametrize("words", [lambda mtctl: [mtctl], without_map_files], ids=["root", "without-map-files"])
def test_names_come_from_the_file_that_is_mapped_and_from_none_whose_name_looks_like_it(leak_of, compile_c, mtctl, folder, words):
	"""maps writes the newline of its name as the four characters that the other one has."""
	shutil.copy(compile_c("sites_leak.c"), folder / "a\nb")
	decoy_of(compile_c, folder / "a\\012b")
	one = leak_of(folder / "a\nb")

	got = subprocess.run([*words(mtctl), "sites", str(one.pid), "--json"], env=one.env, capture_output=True, text=True, timeout=30)

	assert got.returncode == 0, got.stderr
	assert json.loads(got.stdout)["sites"][0]["where"].startswith("early_block at sites_leak.c:")


@needs_root
@pytest.mark.parametrize("words, name", [(lambda mtctl: [mtctl], "early_block"), (without_map_files, "0x[0-9a-f]+ in a.b$")],
                         ids=["root", "without-map-files"])
def test_a_file_that_another_user_has_put_where_the_mapped_one_seems_to_be_gives_no_names(compile_c, mtctl, folder, person, stage, wait_for,
                                                                                          words, name):
	"""Here the mapped one really has the four characters in its name. Device and inode are those of maps, or there is no name."""
	owner = person(1)
	shutil.copy(compile_c("sites_leak.c"), folder / "a\\012b")
	one = stage.spawn(owner.words([folder / "a\\012b"], **owner.shimmed(PROF="on", MALLOC_CONF="lg_prof_sample:15")), stage.bare)
	assert one.stdout.readline() == "ready\n", one.stderr.read()
	wait_for(lambda: list(owner.folder.glob(f"{one.pid}-*.control")), 15, "its files")
	decoy_of(compile_c, folder / "a\nb")

	got = subprocess.run([*words(mtctl), "sites", str(one.pid), "--json"], env=stage.bare, capture_output=True, text=True, timeout=30)

	assert re.match(name, json.loads(got.stdout)["sites"][0]["where"]), got


@pytest.mark.parametrize("split", [split_debug, split_units], ids=lambda split: split.__name__)
def test_debugging_information_that_is_a_fifo_keeps_nobody_waiting(leak_of, control, compile_c, folder, split):
	"""The open of a FIFO waits for its writer: a minute, and all names were lost, those of other files, too."""
	program, debug = split(compile_c, folder)
	debug.unlink()
	os.mkfifo(debug)
	debug.chmod(0o666)
	one = leak_of(program)

	begun = time.monotonic()
	frames = sites_json(control, one)["sites"][0]["frames"]

	assert time.monotonic() - begun < 8
	assert any(frame.startswith("__libc_start") for frame in frames), frames


def of_zeros(bytes_16m):
	"""So many times 16 MB of zeros as a zlib stream: a thousandth of it."""
	chunk = zlib.compressobj(9, zlib.DEFLATED, -15)
	flushed = chunk.compress(bytes(16 << 20)) + chunk.flush(zlib.Z_FULL_FLUSH)
	size = bytes_16m << 24
	return b"\x78\xda" + flushed * bytes_16m + b"\x03\x00" + struct.pack(">I", size % 65521 << 16 | 1), size


def set_compressed(path, names):
	data = bytearray(path.read_bytes())
	offset, = struct.unpack_from("<Q", data, 40)
	entry, count, strings = struct.unpack_from("<HHH", data, 58)
	headers = [offset + entry * number for number in range(count)]
	text, = struct.unpack_from("<Q", data, headers[strings] + 24)
	for header in headers:
		name, _, flags = struct.unpack_from("<IIQ", data, header)
		if bytes(data[text + name:data.index(0, text + name)]).decode() in names:
			struct.pack_into("<Q", data, header + 8, flags | SHF_COMPRESSED)
	path.write_bytes(data)


def test_compressed_debugging_information_costs_the_reader_no_gigabytes(leak_of, compile_c, mtctl, folder):
	"""2 MB of file that would be 2.4 GB: with four such sections it was 6.3 GB, of a process of root's."""
	stream, size = of_zeros(76)
	names = [".debug_str", ".debug_info"]
	(folder / "section").write_bytes(struct.pack("<IIQQ", ELFCOMPRESS_ZLIB, 0, size, 1) + stream)
	words = [word for name in names for word in ("--remove-section", name, "--add-section", f"{name}={folder / 'section'}")]
	run_all(["objcopy", *words, compile_c("sites_leak.c"), folder / "program"])
	set_compressed(folder / "program", names)
	one = leak_of(folder / "program")

	asked = subprocess.Popen([mtctl, "sites", str(one.pid), "--json"], env=bare_of(one), stdout=subprocess.PIPE)
	with asked.stdout:
		seen = json.loads(asked.stdout.read())
	_, status, usage = os.wait4(asked.pid, 0)
	asked.returncode = status

	assert status == 0 and usage.ru_maxrss < 1 << 20, "kB, of the largest of its children"
	assert seen["sites"][0]["where"].startswith("early_block "), "the symbols are in a section of their own"


# ---- the file ----

def heap_files(mt_dir):
	return [path for path in mt_dir.iterdir() if path.suffix in (".heap", ".fresh")]


def test_the_file_is_for_its_owner_and_goes_with_the_process(leak, control, mt_dir):
	one = leak(PROF="on")
	sites_json(control, one)

	(path,) = heap_files(mt_dir)
	assert path.suffix == ".heap" and path.stat().st_mode & 0o7777 == 0o600
	one.end()
	assert heap_files(mt_dir) == []


def test_what_a_killed_process_leaves_is_swept(leak, control, mt_dir):
	one = leak(PROF="on")
	sites_json(control, one)
	one.process.kill()
	one.process.wait()

	assert len(heap_files(mt_dir)) == 1
	control(one.env, "ps")
	assert heap_files(mt_dir) == []


def test_another_user_learns_nothing(leak, control, mtctl, public, mt_dir):
	if os.geteuid() != 0:
		pytest.skip("needs root, to become somebody else")
	one = leak(PROF="on")
	sites_json(control, one)
	(path,) = heap_files(mt_dir)

	read = subprocess.run(["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/bin/cat", str(path)],
	                      capture_output=True, text=True, timeout=10)
	asked = subprocess.run(["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
	                        public(mtctl), "sites", str(one.pid)], env=bare_of(one), capture_output=True,
	                       text=True, timeout=10)

	assert read.returncode != 0 and read.stdout == ""
	assert asked.returncode != 0 and asked.stdout == ""


def test_a_profile_that_is_not_one_is_refused(leak, control, mt_dir):
	"""Its text is not believed: whoever can write there is the same user, but mtctl may be root's."""
	one = leak(PROF="on")
	sites_json(control, one)
	(path,) = heap_files(mt_dir)
	planted = mt_dir / (path.stem + ".fresh")
	planted.symlink_to("/etc/passwd")

	seen = sites_json(control, one)

	assert seen["sites_count"] >= 1
	assert not planted.exists() and not path.is_symlink()
	assert "root:" in open("/etc/passwd", encoding="ascii").read()


def fill(path):
	"""Until there is no room left."""
	fd = os.open(path, os.O_WRONLY | os.O_CREAT)
	try:
		while True:
			os.write(fd, bytes(4096))
	except OSError:
		os.close(fd)


def test_a_full_folder_is_an_error_and_not_half_a_profile(leak, control, tmp_path):
	if os.geteuid() != 0:
		pytest.skip("needs root, to mount")
	place = tmp_path / "small"
	place.mkdir()
	if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k,mode=0700", "none", str(place)], check=False).returncode:
		pytest.skip("no tmpfs can be mounted here")
	try:
		one = leak(PROF="on", DIR=place, MT_MALLOC_CONF="lg_prof_sample:10")
		fill(place / "filler")
		done = control(one.env, "sites", one.pid)
		assert done.returncode != 0 and "could not write its profile" in done.stderr
		(place / "filler").unlink()
		assert sites_json(control, one)["sites_count"] >= 1
		one.process.kill()
		one.process.wait()
	finally:
		subprocess.run(["umount", "-l", str(place)], check=False)


# ---- size classes ----

def test_size_classes_are_filled_on_request(leak, run, compile_c, mt_dir):
	"""Through the same door as mtctl's: the control file. No profiler is needed for it."""
	one = leak()
	one.tell("go")
	files = {path.suffix: path for path in mt_dir.iterdir()}

	got = run([compile_c("sites_classes.c"), files[".control"], files[".stats"]])

	assert got.returncode == 0
	table = dict(map(int, line.split()) for line in got.stdout.splitlines())
	assert 100000 <= table[448] < 101000, table
	assert table[80 << 10] == 100, "decoy_holds"
	assert table[64 << 20] == 1, "early_block"


def test_size_classes_of_another_allocator_are_not_to_be_had(leak, run, compile_c, mt_dir):
	leak(ALLOCATOR="system")
	files = {path.suffix: path for path in mt_dir.iterdir()}

	assert run([compile_c("sites_classes.c"), files[".control"], files[".stats"]]).returncode == 4


# ---- hard moments ----

@pytest.mark.parametrize("rate", [10, 14])
def test_a_storm_of_threads_forks_libraries_and_cancels_under_it(spawn, compile_c, env, control, awake, rate):
	"""A lock of the unwinder that is held while another thread forks would hang the child at its next exception."""
	settings = env(MIN_MB=0, PROF="on", MT_MALLOC_CONF=f"lg_prof_sample:{rate}")
	storm = spawn([compile_c("sites_storm.c"), "3"], settings)
	assert storm.stdout.readline() == "ready\n"
	awake(storm.pid, settings)
	end = time.monotonic() + 2
	turn = answered = 0
	while time.monotonic() < end and storm.poll() is None:
		turn += 1
		words = (["sites", storm.pid, "--json"], ["set", storm.pid, "prof=off"], ["set", storm.pid, "prof=on"])[turn % 3]
		done = control(settings, *words)
		ends = "it has no files" in done.stderr or "has ended" in done.stderr  # they go before the process does
		assert done.returncode == 0 or ends or "cannot be read in" in done.stderr or storm.poll() is not None, done.stderr
		answered += done.returncode == 0
	out, err = storm.communicate(timeout=40)

	assert (storm.returncode, err) == (0, ""), out
	assert out.startswith("forks ") and out.endswith(" bad 0\n")
	assert answered >= 1


def test_a_walk_that_begins_on_the_shims_own_stack_goes_on_to_the_programs(run, compile_c, env):
	"""The walk read what lies above that stack: children of a profiled program died where they grew."""
	got = run([compile_c("sites_own_stack.c")], env(MIN_MB=0, PROF="on", MT_MALLOC_CONF="lg_prof_sample:0"))

	assert (got.stdout, got.stderr) == ("child: status 0\n", "")


def test_a_stack_is_not_walked_from_inside_the_unwinder(run, compile_c, env):
	"""libgcc sorts a table of frames in memory from malloc, with the lock held that each walk takes."""
	got = run([compile_c("sites_unwinder.c")], env(MIN_MB=0, PROF="on", MT_MALLOC_CONF="lg_prof_sample:10"), input="go\n")

	assert got.returncode == 0, got.stderr
	assert int(got.stdout.split()[-1]) > 2, "and the program's own walk is whole"


GREENLETS = """
import greenlet, random
held = []
def work(depth):
	if depth:
		return work(depth - 1)
	for _ in range(60):
		held.append(bytearray(random.randint(10, 5000)))
		del held[:-1000]
		main.switch()
def deeper(depth):
	return sorted([1], key=lambda _: deeper(depth - 1)) if depth else turn()
def turn():
	all_of_them = [greenlet.greenlet(work) for _ in range(50)]
	for number in range(58):
		for one in all_of_them:
			sorted([1], key=lambda _: one.switch(*([random.randint(0, 30)] if number == 0 else [])) or 0)
main = greenlet.getcurrent()
for depth in (0, 3, 10, 1):
	deeper(depth)
print("well")
"""


@pytest.mark.parametrize("rate", [6, 19])
def test_stacks_that_greenlet_has_copied_are_not_walked_past_their_start(run, env, rate):
	"""Above them lies what others have left: an unwinder that goes on reads at addresses that lead nowhere."""
	if run(["/usr/bin/python3", "-c", "import greenlet"]).returncode:
		pytest.skip("python3-greenlet is not installed")

	got = run(["/usr/bin/python3", "-c", GREENLETS], env(MIN_MB=0, PROF="on", MT_MALLOC_CONF=f"lg_prof_sample:{rate}"))

	assert (got.returncode, got.stdout, got.stderr) == (0, "well\n", "")


def test_the_smallest_stacks_are_large_enough(run, compile_c, env):
	got = run([compile_c("sites_small_stacks.c")], env(MIN_MB=0, PROF="on", MT_MALLOC_CONF="lg_prof_sample:6"))

	assert (got.returncode, got.stdout) == (0, "threads 20\n"), got.stderr


def test_a_fork_waits_for_a_walk_that_stands_still_once_and_its_child_never(run, compile_c, env):
	got = run([compile_c("sites_late_walker.c")], env(MIN_MB=0, PROF="on", MT_MALLOC_CONF="lg_prof_sample:6"))

	assert got.returncode == 0, got.stderr
	first, later = map(int, got.stdout.split())
	assert 200 <= first < 900
	assert later < 600, "five forks"


PYTHON_PROGRAM = """
import sys, threading, os
print("ready", flush=True)
sys.stdin.readline()
held = [bytearray(100000) for _ in range(400)]
threads = [threading.Thread(target=lambda: [str(i) * 9 for i in range(20000)]) for _ in range(8)]
[thread.start() for thread in threads]
for _ in range(5):
	pid = os.fork()
	if pid == 0:
		len([str(i) for i in range(10000)])
		os._exit(0)
	assert os.waitpid(pid, 0)[1] == 0
[thread.join() for thread in threads]
try:
	raise ValueError
except ValueError:
	print("done", flush=True)
sys.stdin.readline()
"""


def test_python_under_it(steer, env, awake, control):
	one = steer(["/usr/bin/python3", "-W", "ignore", "-c", PYTHON_PROGRAM],
	            env(MIN_MB=0, PROF=1, MT_MALLOC_CONF="lg_prof_sample:15"))
	assert one.process.stdout.readline() == "ready\n"
	awake(one.pid, one.env)
	switch(control, one, "on")
	assert one.tell("go") == "done"

	seen = sites_json(control, one)

	top = seen["sites"][0]
	assert "PyByteArray" in top["where"] or "python" in top["where"], top
	assert 30 << 20 < top["bytes"] < 60 << 20
	assert one.end() == (0, "")


def test_where_the_stack_cannot_be_walked_it_says_so(compile_c, env, steer, awake, control):
	"""Without that look a walk from inside the unwinder would wait for itself."""
	settings = env(MIN_MB=0, PROF=1)
	one = steer([compile_c("sites_denied.c"), compile_c("sites_leak.c")], settings)
	assert one.process.stdout.readline() == "ready\n"
	awake(one.pid, settings)

	done = control(settings, "set", one.pid, "prof=on")

	assert done.returncode != 0 and "process_vm_readv" in done.stderr
	assert one.tell("go").startswith("done ")


def test_without_libgcc_it_says_so(compile_c, env, steer, awake, control, tmp_path):
	"""A file of that name that is no library stands before it."""
	(tmp_path / "libgcc_s.so.1").write_text("no library")
	settings = dict(env(MIN_MB=0, PROF=1), LD_LIBRARY_PATH=str(tmp_path))
	one = steer([compile_c("sites_leak.c")], settings)
	assert one.process.stdout.readline() == "ready\n"
	awake(one.pid, settings)

	done = control(dict(settings, LD_LIBRARY_PATH=""), "set", one.pid, "prof=on")

	assert done.returncode != 0 and "libgcc_s.so.1" in done.stderr
	assert one.tell("go").startswith("done ")


def test_names_of_cxx_are_readable(steer, compile_c, env, control, awake):
	one = steer([compile_c("sites_cxx.cc")], env(MIN_MB=0, PROF="on"))
	assert one.process.stdout.readline() == "ready\n"
	awake(one.pid, one.env)

	sites = sites_json(control, one)["sites"]

	assert sites[0]["where"].startswith("app::Cache::keep(unsigned long) at sites_cxx.cc:")
