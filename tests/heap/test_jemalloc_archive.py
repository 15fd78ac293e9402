"""A packager names the library that is embedded: JEMALLOC_ARCHIVE, and JEMALLOC_PREFIX where it was configured with a prefix. Such a library
is made here from this machine's, by putting the prefix before its public names."""
import subprocess

import pytest

from test_jemalloc_versions import archive, make, names, other_shim  # noqa: F401 (fixtures)

PUBLIC = ("malloc", "calloc", "realloc", "free", "posix_memalign", "aligned_alloc", "memalign", "valloc", "malloc_usable_size", "mallocx", "rallocx",
	"xallocx", "sallocx", "dallocx", "sdallocx", "nallocx", "mallctl", "mallctlnametomib", "mallctlbymib", "malloc_stats_print", "malloc_message",
	"malloc_conf", "malloc_conf_2_conf_harder")


@pytest.fixture
def prefixed(tmp_path, archive):  # noqa: F811
	"""prefixed("local_"): a copy of the archive with that prefix, as --with-jemalloc-prefix makes it: without C++'s operators."""
	def put(prefix):
		copy = tmp_path / "elsewhere" / "libother.a"
		copy.parent.mkdir()
		words = [word for name in PUBLIC for word in ("--redefine-sym", f"{name}={prefix}{name}")]
		subprocess.run(["objcopy", *words, archive, copy], check=True)
		subprocess.run(["ar", "d", copy, "jemalloc_cpp.pic.o", "jemalloc_cpp.o"], check=True)
		return copy
	return put


@pytest.fixture(scope="module")
def usual(tmp_path_factory, archive):  # noqa: F811
	"""Names of the library that the build makes without these variables."""
	target = tmp_path_factory.mktemp("usual") / "usual.a"
	done = make(target, jemalloc_lib=target)
	assert done.returncode == 0, done.stderr
	return names(target)


@pytest.mark.xdist_group("usual")
@pytest.mark.parametrize("prefix", ["local_", "je_"])
def test_a_library_elsewhere_with_a_prefix_becomes_what_this_machines_does(prefixed, usual, tmp_path, prefix):
	target = tmp_path / "renamed.a"

	done = make(target, jemalloc_lib=target, JEMALLOC_ARCHIVE=prefixed(prefix), JEMALLOC_PREFIX=prefix)

	assert done.returncode == 0, done.stderr
	assert "lacks" not in done.stdout
	built = names(target)
	assert built - {name for name in built if name.startswith("local_")} <= usual
	assert {"je_malloc", "je_bare_realloc", "je_mallctl", "je_malloc_conf"} <= built


def test_a_prefix_that_is_not_named_is_refused(prefixed, tmp_path):
	target = tmp_path / "renamed.a"

	done = make(target, jemalloc_lib=target, JEMALLOC_ARCHIVE=prefixed("local_"))

	assert done.returncode != 0 and "lacks" in done.stderr and "cannot be embedded" in done.stderr


def test_a_library_that_does_not_exist_is_named(tmp_path):
	target = tmp_path / "renamed.a"

	done = make(target, jemalloc_lib=target, JEMALLOC_ARCHIVE="/nowhere/libjemalloc.a")

	assert done.returncode != 0 and "/nowhere/libjemalloc.a is missing" in done.stderr


@pytest.mark.slow
def test_a_program_runs_over_a_library_with_a_prefix(prefixed, other_shim, tmp_path, run):  # noqa: F811
	library, _ = other_shim(JEMALLOC_ARCHIVE=prefixed("local_"), JEMALLOC_PREFIX="local_")

	said = run(["/usr/bin/python3", "-c", "kept = [bytearray(1000) for _ in range(50000)]; print(len(kept))"],
		env={"LD_PRELOAD": str(library), "MT_DIR": str(tmp_path), "MT_LOG_LEVEL": "info", "MT_LOG": str(tmp_path / "log")})

	assert said.stdout.split() == ["50000"], said.stderr
	assert "embedded" in (tmp_path / "log").read_text()
