"""Programs under the tools that look for their errors: the sanitizers of gcc, and valgrind's thread checkers."""
import re
import shutil

import pytest

ASAN = {"shared": ["-fsanitize=address"], "static": ["-fsanitize=address", "-static-libasan"]}


@pytest.mark.parametrize("fault", ["overflow", "use_after_free", "double_free"])
@pytest.mark.parametrize("runtime", ASAN)
def test_asan_reports_what_it_reports_without_us(run, env, bare, compile_c, runtime, fault):
	"""Preloads are inherited, and ASan's shared runtime ends a program in which it does not come first."""
	program = compile_c("sanitized.c", *ASAN[runtime])

	want = run([program, fault], bare)
	got = run([program, fault], env())

	assert want.returncode == got.returncode == 1
	titles = [re.findall(r"ERROR: AddressSanitizer: [a-z-]+|#\d+ 0x\w+ in main .*", done.stderr) for done in (want, got)]
	titles = [[re.sub(r"#\d+ 0x\w+", "", line) for line in lines] for lines in titles]
	assert titles[0] == titles[1] and len(titles[0]) > 2, "the error, and the caller of malloc in each stack"


def test_a_program_under_tsan_may_grow_in_several_threads(run, env, compile_c):
	"""The library started its thread in the first call of malloc of a new one, which TSan was still starting: a crash."""
	done = run([compile_c("tsan_threads.c", "-fsanitize=thread"), "4"], env())

	assert (done.returncode, done.stdout) == (0, "ends\n"), done.stderr


@pytest.mark.parametrize("allocator", ["auto", "jemalloc", "system"])
@pytest.mark.parametrize("tool", ["helgrind", "drd"])
def test_a_thread_checker_reports_nothing_of_ours(run, env, compile_c, tool, allocator):
	"""Under a tool that replaces malloc the library starts no thread, and its pointers are found before there are any."""
	if not shutil.which("valgrind"):
		pytest.skip("valgrind is not there")
	program = compile_c("tool_threads.c", "-rdynamic")

	got = run(["valgrind", f"--tool={tool}", "--error-exitcode=99", program], env(ALLOCATOR=allocator, MIN_MB=0), timeout=120)

	assert (got.returncode, got.stdout) == (0, "ends\n"), got.stderr
