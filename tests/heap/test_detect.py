"""Which allocator is bound, said with evidence: alone, with another one before or behind us, or linked in."""
import pathlib
import shutil
import subprocess
import time

import pytest

from allocators import FILES, library_of


def figures_of(puppet, awake, settings, *flags):
	actor = puppet(settings, *flags)
	actor.tell("alloc 20000 2000 2000")
	actor.tell("churn 50")
	seen = awake(actor.pid, settings)
	actor.tell("keep 0")
	assert actor.end()[0] == 0
	return seen


def test_alone_it_is_the_embedded_jemalloc(puppet, env, awake):
	seen = figures_of(puppet, awake, env())

	assert (seen["allocator"], seen["mode"]) == ("jemalloc", "jemalloc")
	assert "libmtshim.so" in seen["evidence"]


def test_system_is_libc(puppet, env, awake):
	seen = figures_of(puppet, awake, env(ALLOCATOR="system"))

	assert (seen["allocator"], seen["mode"]) == ("glibc", "system")
	assert "libc.so.6" in seen["evidence"]


@pytest.mark.parametrize("name", FILES)
def test_another_behind_us_is_taken_by_auto(puppet, env, shim, awake, name):
	"""As start scripts do that append an allocator to LD_PRELOAD."""
	library = library_of(name)

	seen = figures_of(puppet, awake, dict(env(), LD_PRELOAD=f"{shim}:{library}"))

	assert (seen["allocator"], seen["mode"]) == (name, "system")
	assert pathlib.Path(library).resolve().name in seen["evidence"] or pathlib.Path(library).name in seen["evidence"]


@pytest.mark.parametrize("name", FILES)
def test_another_before_us_is_seen(puppet, env, shim, awake, name):
	"""malloc is theirs and never reaches us; the process is still watched, and nothing false is said."""
	library = library_of(name)

	seen = figures_of(puppet, awake, dict(env(MIN_MB=0), LD_PRELOAD=f"{library}:{shim}"))

	assert (seen["allocator"], seen["mode"]) == (name, "shadowed")
	assert pathlib.Path(library).resolve().name in seen["evidence"] or pathlib.Path(library).name in seen["evidence"]


def test_another_before_us_is_seen_in_a_program_that_lends_its_jump_as_the_address_of_malloc(spawn, env, shim, awake, compile_c):
	"""As Debian's python3, which is not position-independent: what malloc resolves to is in the program then."""
	library = library_of("jemalloc")
	settings = dict(env(MIN_MB=0), LD_PRELOAD=f"{library}:{shim}")
	process = spawn([compile_c("takes_address.c", "-fno-pie", "-no-pie")], settings)
	assert process.stdout.readline() == "ready\n"

	seen = awake(process.pid, settings)

	assert (seen["allocator"], seen["mode"]) == ("jemalloc", "shadowed") and "libjemalloc.so.2" in seen["evidence"]


def test_a_program_linked_with_jemalloc_keeps_it(puppet, env, awake):
	library_of("jemalloc")

	seen = figures_of(puppet, awake, env(), "-l:libjemalloc.so.2")

	assert (seen["allocator"], seen["mode"]) == ("jemalloc", "system")
	assert "libjemalloc.so.2" in seen["evidence"]


@pytest.mark.parametrize("name", FILES)
def test_the_users_word_overrides(puppet, env, shim, awake, name):
	library = library_of(name)

	seen = figures_of(puppet, awake, dict(env(ALLOCATOR="jemalloc"), LD_PRELOAD=f"{shim}:{library}"))

	if exports(library, "strdup"):
		assert (seen["allocator"], seen["mode"]) == (name, "system"), "its blocks would reach our free"
	else:
		assert (seen["allocator"], seen["mode"]) == ("jemalloc", "jemalloc")


def exports(library, name):
	listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
	return name in listed.split()


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("order", ["behind", pytest.param("before", marks=pytest.mark.long)])
def test_programs_work_in_every_chain(run, env, bare, shim, compile_c, name, order):
	library = library_of(name)
	chain = f"{library}:{shim}" if order == "before" else f"{shim}:{library}"
	settings = dict(env(MIN_MB=0, TICK_MS=10, SLACK_MB=0, IDLE_MS=10, BUDGET_PCT=100), LD_PRELOAD=chain)
	program = compile_c("cxx_program.cc", "-g0")

	assert run([program], settings).stdout == run([program], bare).stdout
	done = run([compile_c("fork_storm.c"), 30], settings, timeout=120)
	assert done.stdout == "30 of 30 children, 1 of 1 spawned\n", done.stderr


@pytest.mark.parametrize("name", ["jemalloc", "tcmalloc"])
@pytest.mark.parametrize("order", ["before", "behind"])
def test_another_allocator_is_purged_without_being_asked(puppet, env, shim, awake, stats, wait_for, name, order):
	"""Live bytes are theirs and as old as the last answer: they are asked for again."""
	library = library_of(name)
	chain = f"{library}:{shim}" if order == "before" else f"{shim}:{library}"
	# A jemalloc as shipped would give it back by itself.
	settings = dict(env(MIN_MB=0, SLACK_MB=16, SLACK_PCT=0, SETTLE_MS=2000), LD_PRELOAD=chain,
	                MALLOC_CONF="dirty_decay_ms:-1,muzzy_decay_ms:-1")
	actor = puppet(settings)
	awake(actor.pid, settings)
	actor.tell("alloc 40000 5000 5000")
	assert actor.number("status RssAnon:") > 190_000
	time.sleep(1.5)
	actor.tell("keep 0")

	wait_for(lambda: actor.number("status RssAnon:") < 60_000, 15)
	assert stats(actor.pid, settings)["purge_count"] >= 1


def test_a_browsers_zygote_gets_no_thread(run, env, shim):
	"""Chromium's ends itself where it finds one."""
	settings = dict(env(MIN_MB=0), LD_PRELOAD=f"{library_of('mimalloc')}:{shim}")
	def threads(argument):
		return run(["sh", "-c", "sleep 0.2; grep Threads: /proc/$$/status", argument], settings).stdout
	assert (threads("--type=renderer"), threads("--type=zygote")) == ("Threads:\t2\n", "Threads:\t1\n")


def test_growth_stands_in_where_nobody_counts(puppet, env, shim, awake, stats, wait_for):
	"""mimalloc tells no figures: what has come since the last purge is tried once, and then left alone."""
	settings = dict(env(MIN_MB=0, SLACK_MB=64, SLACK_PCT=0, SETTLE_MS=3600000),
	                LD_PRELOAD=f"{shim}:{library_of('mimalloc')}")
	actor = puppet(settings)
	awake(actor.pid, settings)
	time.sleep(1.5)
	assert stats(actor.pid, settings)["purge_count"] == 0, "what was there at the start counts as in use"
	actor.tell("alloc 40000 5000 5000")

	wait_for(lambda: stats(actor.pid, settings)["purge_count"] >= 1, 15)
	def left_alone():
		tried = stats(actor.pid, settings)["purge_count"]
		time.sleep(2.5)
		return stats(actor.pid, settings)["purge_count"] == tried
	wait_for(left_alone, 15)  # on a busy machine the growth itself comes in pieces, and each is tried


@pytest.mark.parametrize("name", ["jemalloc", "tcmalloc"])
def test_their_live_bytes_are_in_the_records(puppet, env, shim, awake, stats, control, wait_for, name):
	settings = dict(env(MIN_MB=0, BUDGET_PCT=0), LD_PRELOAD=f"{shim}:{library_of(name)}")
	actor = puppet(settings)
	awake(actor.pid, settings)
	actor.tell("alloc 40000 5000 5000")
	control(settings, "trim", actor.pid)

	seen = stats(actor.pid, settings)
	assert 200_000_000 <= seen["records"][-1]["live_before_bytes"] <= 260_000_000
	assert 200_000_000 <= seen["records"][-1]["live_after_bytes"] <= 260_000_000
	wait_for(lambda: 200_000_000 <= actor.number("live") <= 260_000_000, what="the worker has published what it saw")


def test_the_worker_does_not_make_the_extension_of_tcmalloc_while_a_constructor_does(puppet, env, shim, awake, stats, compile_c, tmp_path,
                                                                                     wait_for):
	"""Both did, without a lock, and sometimes tcmalloc was left without its figures and its release of memory."""
	library = tmp_path / "libtcmalloc_stand_in.so"
	library.symlink_to(compile_c("tcmalloc_extension.c", "-shared", "-fPIC"))
	settings = dict(env(MIN_MB=0), LD_PRELOAD=f"{shim}:{library}")
	actor = puppet(settings)
	awake(actor.pid, settings)

	wait_for(lambda: stats(actor.pid, settings)["heap_live_bytes"] == 111 << 20, what="its live bytes are told")


def test_what_nobody_counts_is_not_told_as_dirty(puppet, env, shim, awake, stats, control):
	settings = dict(env(MIN_MB=0, BUDGET_PCT=0), LD_PRELOAD=f"{shim}:{library_of('mimalloc')}")
	actor = puppet(settings)
	awake(actor.pid, settings)
	actor.tell("alloc 40000 5000 5000")
	time.sleep(1.5)

	seen = stats(actor.pid, settings)
	assert seen["rss_anon_bytes"] > 190_000_000
	assert (seen["heap_dirty_bytes"], seen["heap_idle_bytes"]) == (None, None)


@pytest.mark.parametrize("name", ["jemalloc", "mimalloc"])
def test_a_trim_reaches_the_other_allocator(puppet, env, shim, awake, control, name):
	settings = dict(env(), LD_PRELOAD=f"{shim}:{library_of(name)}")
	actor = puppet(settings)
	actor.tell("alloc 100000 2000 2000")
	awake(actor.pid, settings)
	before = actor.number("status RssAnon:")
	actor.tell("keep 0")

	done = control(settings, "trim", actor.pid)

	assert done.returncode in (0, 1), done.stdout + done.stderr
	assert actor.number("status RssAnon:") < before - 120_000, done.stdout


def test_requests_that_no_machine_can_serve_do_not_hide_growth(run, env, shim, compile_c):
	"""Over an allocator that we cannot count the requests are added up, to look at the process now and then."""
	settings = dict(env(), LD_PRELOAD=f"{shim}:{library_of('tcmalloc')}")

	assert run([compile_c("absurd.c")], settings).stdout == "6 refused, 2 threads\n"


def test_a_program_with_a_malloc_of_its_own_gets_no_thread_that_could_do_nothing(run, env, bare, compile_c):
	"""A browser's sandbox refuses to start in a process of two threads."""
	program = compile_c("own_malloc.c", "-rdynamic")
	expected = run([program], bare).stdout
	assert expected.startswith("1 ")

	assert run([program], env()).stdout == expected


def test_a_program_with_a_malloc_of_its_own_is_watched_where_that_is_asked_for(run, env, compile_c):
	program = compile_c("own_malloc.c", "-rdynamic")

	for settings in (env(MIN_MB=0), env(RSS_LIMIT_MB=1000)):
		assert run([program, 2], settings).stdout == "2 sandboxed\n"


def test_a_malloc_that_registers_fork_handlers_in_its_first_call_is_not_called_from_there(run, env, bare, compile_c):
	"""It holds its lock meanwhile: chromium waited for itself for ever."""
	early = compile_c("own_malloc_early.c", "-shared", "-fPIC")
	program = compile_c("own_malloc.c", "-rdynamic", "-Wl,--no-as-needed", early)

	assert run([program], env(), timeout=20).stdout == run([program], bare).stdout


@pytest.mark.parametrize("settings", [{}, {"MIN_MB": 0}, {"ALLOCATOR": "system"}, {"ALLOCATOR": "jemalloc"}, {"ENABLE": 0}, {"PROF": "on"},
	{"CUDA": "pool"}], ids=str)
def test_a_malloc_of_the_programs_own_is_not_asked_to_free_before_main(run, env, bare, compile_c, settings):
	"""Maxima died before main: GCL's free works once main has mapped its heap."""
	program = compile_c("own_malloc_late.c", "-rdynamic", "-fno-builtin")

	assert run([program], bare).stdout == "served by the program\n"
	got = run([program], env(**settings), timeout=20)
	assert (got.returncode, got.stdout) == (0, "served by the program\n"), got.stderr


# ---- names that the allocator which is bound before us lacks ----

CORE = [["/bin/ls", "-l", "/usr/bin"], ["/usr/bin/sort", "/etc/services", "/etc/passwd"], ["/bin/grep", "-r", "root", "/etc/passwd", "/etc/group"],
        ["/usr/bin/find", "/etc/apt", "/etc/default"]]


WRAPPERS = {"header": ["-DMARK=1", "-DBY=1"], "header_by_libcs_names": ["-DMARK=1", "-DBY=3"], "footer": ["-DMARK=2", "-DBY=1"],
            "free_alone": ["-DMARK=3", "-DBY=1"]}
WAYS = [{}, {"MIN_MB": 0}, {"ALLOCATOR": "system"}, {"ALLOCATOR": "jemalloc"}, {"ENABLE": 0}]


@pytest.mark.parametrize("order", ["before", "behind"])
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapper_that_marks_its_blocks_gets_back_those_that_it_made(run, env, compile_c, shim, wrapper, order):
	"""They lie in libc's heap, beside those that we had made before: an address tells nothing."""
	library = compile_c("marks_blocks.c", "-shared", "-fPIC", "-fno-builtin", *WRAPPERS[wrapper])
	chain = f"{library}:{shim}" if order == "before" else f"{shim}:{library}"
	program = compile_c("fork_storm.c")

	for command in (["/bin/ls", "/"], ["perl", "-e", "%h = map { $_ => 'x' x $_ } 1..3000; print scalar keys %h"], [program, 5]):
		expected = run(command, {"LD_PRELOAD": library})
		for way in WAYS:
			done = run(command, dict(env(**way), LD_PRELOAD=chain))
			assert expected.returncode == 0 and (done.returncode, done.stdout, done.stderr) == (0, expected.stdout, ""), (way, command)


@pytest.mark.parametrize("wrapper", ["header", "footer"])
def test_a_program_that_is_linked_with_a_wrapper_runs(run, env, compile_c, wrapper):
	library = compile_c("marks_blocks.c", "-shared", "-fPIC", "-fno-builtin", *WRAPPERS[wrapper])
	program = compile_c("fork_storm.c", "-Wl,--no-as-needed", library)

	for way in WAYS:
		done = run([program, 5], env(**way))
		assert (done.stdout, done.stderr) == ("5 of 5 children, 0 of 0 spawned\n", ""), way


@pytest.mark.parametrize("order", ["before", "behind"])
@pytest.mark.parametrize("name", ["libmemusage.so", "libc_malloc_debug.so.0"])
def test_glibcs_own_wrappers_work_before_and_behind_us(run, env, shim, tmp_path, name, order):
	library = next((path for path in (folder / name for folder in (pathlib.Path("/lib"), *pathlib.Path("/lib").glob("*-linux-gnu"))) if path.exists()), None)
	if not library:
		pytest.skip(f"{name} is not there")
	chain = f"{library}:{shim}" if order == "before" else f"{shim}:{library}"

	for checks in ({}, {"GLIBC_TUNABLES": "glibc.malloc.check=3"}):
		for command in (["/bin/ls", "/"], ["perl", "-e", "print 'x' x 3000000"]):
			expected = run(command, {"LD_PRELOAD": str(library), **checks})
			for way in WAYS:
				done = run(command, dict(env(**way), LD_PRELOAD=chain, **checks))
				assert expected.returncode == 0 and (done.returncode, done.stdout) == (0, expected.stdout), (way, command, done.stderr)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("order", ["before", "behind"])
def test_ls_sort_grep_and_find_say_the_same_beside_another_allocator(run, env, bare, shim, backend, name, order):
	"""They call reallocarray, which was answered from our heap for the other's blocks."""
	library = library_of(name)
	chain = f"{library}:{shim}" if order == "before" else f"{shim}:{library}"

	for command in CORE:
		expected = run(command, bare)
		for settings in (env(), env(ENABLE=0)):
			done = run(command, dict(settings, LD_PRELOAD=chain), timeout=20)
			assert (done.returncode, done.stdout, done.stderr) == (expected.returncode, expected.stdout, expected.stderr), command


@pytest.mark.parametrize("flags, well", [([], 3), (["-DMEMALIGN"], 7)], ids=["oldest_names", "with_memalign"])
@pytest.mark.parametrize("link", ["-pie", "-no-pie"])
def test_names_that_a_programs_own_malloc_lacks_are_made_of_those_it_has(run, env, compile_c, backend, flags, well, link):
	program = compile_c("static_malloc.c", "-rdynamic", link, *([] if link == "-pie" else ["-fno-pie"]), *flags)

	for settings in (env(), env(MIN_MB=0)):
		done = run([program], settings)
		assert (done.returncode, done.stdout) == (0, f"{well} well\n"), done.stderr


def test_a_program_with_operators_of_its_own_keeps_them(run, env, bare, compile_c, backend):
	program = compile_c("own_operators.cc")
	expected = run([program], bare)
	assert (expected.returncode, expected.stdout.split()[0]) == (0, "own")

	done = run([program], env(MIN_MB=0))

	assert (done.returncode, done.stdout, done.stderr) == (0, expected.stdout, "")


def test_what_valgrind_replaces_is_told_and_left_alone(run, env, bare, backend):
	"""It replaces malloc where it is: our reallocarray made a block that its free had never seen."""
	if not shutil.which("valgrind"):
		pytest.skip("valgrind is not there")
	command = ["valgrind", "-q", "--error-exitcode=99", "/bin/ls", "/"]

	done = run(command, env(LOG_LEVEL="info"), timeout=60)

	assert (done.returncode, done.stdout) == (0, run(["/bin/ls", "/"], bare).stdout), done.stderr
	assert "valgrind" in done.stderr, "and said so"


@pytest.mark.parametrize("settings", [{}, {"MIN_MB": 0}, {"ALLOCATOR": "system"}, {"ENABLE": 0}], ids=str)
def test_a_program_that_names_libdl_before_libc_starts(run, env, compile_c, settings):
	"""Programs linked against glibc before 2.34 do: make and node of Debian 12. The search for libc's malloc ended at libdl.so.2."""
	program = compile_c("wakes.c", "-Wl,--no-as-needed", "-l:libdl.so.2")

	got = run([program], env(**settings))

	assert got.returncode >= 0, got.stderr
