"""Programs under the tools that look for their errors: the sanitizers of gcc, and valgrind's thread checkers."""
import re
import shutil

import pytest

SANITIZERS = {"address": "address", "static address": "address -static-libasan", "thread": "thread", "leak": "leak"}


@pytest.fixture
def sanitized(compile_c):
	def build(name):
		kind, *flags = SANITIZERS[name].split()
		return compile_c("sanitized.c", f"-fsanitize={kind}", *flags)
	return build



@pytest.mark.parametrize("name", SANITIZERS)
def test_a_program_built_with_a_sanitizer_runs(run, env, sanitized, name):
	"""Preloads are inherited; ASan's shared runtime ends a program in which it does not come first."""
	got = run([sanitized(name)], env())

	assert (got.returncode, got.stdout, got.stderr) == (0, "ends\n", "")


@pytest.mark.parametrize("fault", ["overflow", "use_after_free", "double_free"])
@pytest.mark.parametrize("name", ["address", "static address"])
def test_asan_reports_what_it_reports_without_us(run, env, bare, sanitized, name, fault):
	program = sanitized(name)

	want = run([program, fault], bare)
	got = run([program, fault], env())

	assert want.returncode == got.returncode == 1
	titles = [re.findall(r"ERROR: AddressSanitizer: [a-z-]+|#\d+ 0x\w+ in main .*", done.stderr) for done in (want, got)]
	titles = [[re.sub(r"#\d+ 0x\w+", "", line) for line in lines] for lines in titles]
	assert titles[0] == titles[1] and len(titles[0]) > 2, "the error, and the caller of malloc in each stack"


@pytest.mark.parametrize("allocator", ["auto", "jemalloc", "system"])
@pytest.mark.parametrize("tool", ["helgrind", "drd"])
def test_a_thread_checker_reports_nothing_of_ours(run, env, compile_c, tool, allocator):
	"""Under a tool that replaces malloc the library starts no thread, and its pointers are found before there are any."""
	if not shutil.which("valgrind"):
		pytest.skip("valgrind is not there")
	program = compile_c("tool_threads.c", "-rdynamic")

	got = run(["valgrind", f"--tool={tool}", "--error-exitcode=99", program], env(ALLOCATOR=allocator, MIN_MB=0), timeout=120)

	assert (got.returncode, got.stdout) == (0, "ends\n"), got.stderr
