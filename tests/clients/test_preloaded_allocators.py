"""Small programs with another allocator in LD_PRELOAD, before the shim and behind it. They call malloc, free and reallocarray,
which older allocators do not have: all of one family must come from one allocator."""
import pathlib
import subprocess

import pytest

LIBRARIES = {"jemalloc": ("libjemalloc2",), "tcmalloc": ("libtcmalloc-minimal4", "libtcmalloc-minimal4t64"),
             "mimalloc": ("libmimalloc2.0", "libmimalloc3")}
FILES = {"jemalloc": "libjemalloc.so.", "tcmalloc": "libtcmalloc_minimal.so.", "mimalloc": "libmimalloc.so."}
PROGRAMS = {
	"ls": "ls -laR --color=always . && ls -l /usr/bin nothing",
	"sort": "sort -t, -k2,2n -k1,1r --parallel=4 -S 2M numbers && sort -c numbers",
	"grep": "grep -rnE 'b(1|22)+[0-9]*,.*(7|9)$' . && grep -Pc '\\d+7\\b' numbers && grep -f words -c numbers && grep -o nothing numbers",
	"find": "find . /etc/ssl -name '*[0-9a-f]*' -printf '%p %s %m\\n' | LC_ALL=C sort && find . -size +1k -exec wc -c {} + && find nothing",
}


def file_of(name):
	for package in LIBRARIES[name]:
		listed = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True, check=False).stdout.splitlines()
		found = [line for line in listed if pathlib.Path(line).name.startswith(FILES[name])]
		if found:
			return min(found, key=len)
	return pytest.skip(f"{name} is not installed")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
	folder = tmp_path_factory.mktemp("tree")
	(folder / "numbers").write_text("".join(f"b{i * 7919 % 30011},{i * 104729 % 997}\n" for i in range(30000)))
	(folder / "words").write_text("".join(f"b{i * 31},\n" for i in range(300)))
	for number in range(60):
		(folder / f"d{number % 7}" / f"e{number % 5}").mkdir(parents=True, exist_ok=True)
		(folder / f"d{number % 7}" / f"e{number % 5}" / f"f{number}").write_text(f"b{number},{number * 3}\n" * number)
	return folder


def commands():
	"""The shell itself is not the subject, and must not stop at the first that dies."""
	return {name: ["/bin/bash", "-c", script.replace(" && ", "; echo $?; ") + "; echo $?"] for name, script in PROGRAMS.items()}


def seen(done):
	return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def expected(tree, bare):
	return {name: seen(subprocess.run(words, env=dict(bare, LC_ALL="C.UTF-8"), cwd=tree, capture_output=True, text=True, errors="replace",
	                                  stdin=subprocess.DEVNULL, check=False)) for name, words in commands().items()}


@pytest.mark.parametrize("order", ["before", "behind"])
@pytest.mark.parametrize("other", LIBRARIES)
def test_small_programs_work_beside_another_allocator(run, env, shim, tree, expected, backend, other, order):
	library = file_of(other)
	preload = f"{library}:{shim}" if order == "before" else f"{shim}:{library}"
	# As shipped, and with the worker at work from the first call.
	settings = [dict(env(), LD_PRELOAD=preload), dict(env(MIN_MB=0), LD_PRELOAD=preload)]
	differ = []

	for name, words in commands().items():
		for setting in settings:
			got = run(words, dict(setting, LC_ALL="C.UTF-8"), cwd=tree)
			if seen(got) != expected[name]:
				differ.append(f"{name}: {got.returncode} {got.stderr[-300:]}")

	assert not differ, "\n".join(differ)
