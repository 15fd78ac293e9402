"""PHP under the preload: its modules are loaded with RTLD_DEEPBIND, which other allocators in LD_PRELOAD do not outlive."""
import pathlib
import signal
import socket
import subprocess

import pytest

PROGRAM = r'''<?php
$rows = [];
for ($i = 0; $i < 40000; $i++) $rows["k$i"] = ["id" => $i, "text" => str_repeat("x", $i % 90)];
usort($rows, fn($a, $b) => $b["id"] % 977 <=> $a["id"] % 977 ?: $a["id"] <=> $b["id"]);
echo hash("sha256", json_encode($rows)), "\n";
unset($rows);
echo preg_replace_callback("/(\d+)-(\w)/", fn($m) => strtoupper($m[2]) . $m[1], "1-a 22-b 333-c"), "\n";
echo (new DateTime("2020-02-30 10:00", new DateTimeZone("Europe/Berlin")))->format(DATE_ATOM), "\n";
echo md5(gzcompress(str_repeat("compress me ", 50000), 9)), " ", bin2hex(iconv("UTF-8", "ISO-8859-1", "gr\u{fc}n")), "\n";
$modules = get_loaded_extensions(); sort($modules); echo implode(",", $modules), "\n";
for ($n = 0; $n < 4; $n++) {
	$pid = pcntl_fork();
	if ($pid === 0) { $numbers = range(1, 50000 + $n); exit(array_sum($numbers) % 200); }
	pcntl_waitpid($pid, $status);
	echo pcntl_wexitstatus($status), "\n";
}
pcntl_async_signals(true);
pcntl_signal(SIGUSR1, function () { echo "signalled\n"; });
posix_kill(getmypid(), SIGUSR1);
fflush(STDOUT);
echo proc_close(proc_open(["sh", "-c", "exit 6"], [], $pipes)), "\n";
ini_set("memory_limit", "64M");
str_repeat("y", 80 << 20);
'''

LIBC = r'''<?php
$libc = FFI::cdef("void *malloc(size_t); void free(void *); char *strdup(const char *); void *realloc(void *, size_t);", "libc.so.6");
for ($n = 0; $n < 1000; $n++) {
	$block = $libc->malloc(100 + $n);
	$block = $libc->realloc($block, 5000 + $n);
	$libc->free($block);
	$text = $libc->strdup("a copy of libc's $n");
	if ($n === 999) echo FFI::string($text), "\n";
	$libc->free($text);
}
'''

PAGE = r'''<?php
header("Content-Type: text/plain");
parse_str($_SERVER["QUERY_STRING"], $asked);
$rows = [];
for ($i = 0; $i < 20000; $i++) $rows[] = ["id" => $i, "text" => str_repeat("x", ($i * $asked["n"]) % 90)];
echo hash("sha256", serialize($rows)), " ", strlen(file_get_contents("php://input")), "\n";
error_log("page " . $asked["n"]);
if ($asked["n"] % 4 === 3) exit(3);
'''

POOL = """[global]
error_log = {folder}/fpm.log
daemonize = no
[www]
listen = {folder}/socket
pm = static
pm.max_children = 3
; Workers end and others take their place.
pm.max_requests = 4
"""


def test_php_prints_the_same(same, needs, tmp_path):
	needs("php")
	(tmp_path / "program.php").write_text(PROGRAM)

	got = same(["php", tmp_path / "program.php"])

	assert got.returncode == 255 and "Allowed memory size" in got.stdout + got.stderr
	assert "signalled\n6\n" in got.stdout


def test_php_calls_malloc_and_free_of_libc(run, needs, env, bare, backend, tmp_path):
	needs("php")
	(tmp_path / "libc.php").write_text(LIBC)
	expected = run(["php", tmp_path / "libc.php"], bare)
	if "Class \"FFI\" not found" in expected.stdout:
		pytest.skip("this php has no FFI")

	got = run(["php", tmp_path / "libc.php"], env(MIN_MB=0))

	assert (got.returncode, got.stdout, got.stderr) == (0, "a copy of libc's 999\n", ""), expected.stderr


def listens(path):
	"""The socket's file is there before its owner listens."""
	with socket.socket(socket.AF_UNIX) as client:
		return client.connect_ex(str(path)) == 0


@pytest.fixture
def fpm(spawn, run, needs, bare, ordinary, wait_for):
	"""fpm(env): php-fpm as an ordinary user; its process, and ask(number) that answers what a FastCGI client gets."""
	def start(env):
		needs("cgi-fcgi")
		found = sorted(pathlib.Path("/usr/sbin").glob("php-fpm*"))
		if not found:
			pytest.skip("php-fpm is not installed")
		folder = ordinary.folder
		(folder / "page.php").write_text(PAGE)
		(folder / "pool.conf").write_text(POOL.format(folder=folder))
		(folder / "page.php").chmod(0o644)
		master = spawn([found[-1], "-F", "-y", folder / "pool.conf", "-p", folder], env, cwd=folder, stdout=subprocess.DEVNULL,
		               **ordinary.user)
		wait_for(lambda: listens(folder / "socket"), 20, "php-fpm's socket")

		def ask(number):
			done = run(["cgi-fcgi", "-bind", "-connect", folder / "socket"],
			           dict(bare, SCRIPT_FILENAME=str(folder / "page.php"), SCRIPT_NAME="/page.php", REQUEST_METHOD="POST",
			                QUERY_STRING=f"n={number}", CONTENT_LENGTH="5000", CONTENT_TYPE="text/x"),
			           input="b" * 5000, **ordinary.user)
			return done.returncode, done.stdout, done.stderr
		return master, ask
	yield start


def test_php_fpm_serves_and_reopens_its_log(fpm, bare, stats, awake, wait_for, files_of_the_dead, ordinary, backend):
	"""Its master's SIGUSR1 reopens the log; its workers come and go."""
	def served(master, ask):
		answers = [ask(number) for number in range(10)]
		(ordinary.folder / "fpm.log").unlink()
		master.send_signal(signal.SIGUSR1)
		wait_for((ordinary.folder / "fpm.log").exists, 10, "the log is opened again")
		return answers + [ask(number) for number in range(10, 20)]

	def stopped(master):
		master.send_signal(signal.SIGQUIT)
		return master.wait(timeout=20), "SIGSEGV" in (ordinary.folder / "fpm.log").read_text()

	expected = served(*(plain := fpm(bare)))
	expected_end = stopped(plain[0])
	settings = ordinary.env(MIN_MB=0)

	master, ask = fpm(settings)
	awake(master.pid, settings)
	assert served(master, ask) == expected
	assert expected[2][0] == 0 and " 5000" in expected[2][1]
	assert stats(master.pid, settings)["cleanups"]["signal"] == 0
	wait_for(lambda: not files_of_the_dead(ordinary.mt_dir), 8, "the files of ended workers are gone")
	assert stopped(master) == expected_end == (0, False)
