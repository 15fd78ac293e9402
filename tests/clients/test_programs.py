"""Programs of all kinds under the preload: same output, same exit code."""
import os
import pathlib
import re
import shutil
import signal
import socket
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM_C = r'''
#include <stdio.h>
#include <stdlib.h>
static int twice(int n) { return 2 * n; }
int main(void)
{
	char *text = malloc(30);
	snprintf(text, 30, "twice 21 is %d", twice(21));
	puts(text);
	free(text);
	return 3;
}
'''


def test_a_cxx_program_prints_the_same(same, compile_c):
	got = same([compile_c(HERE / "cxx_program.cc", "-g0")])

	assert got.returncode == 7 and "aligned 1" in got.stdout


def test_gdb_runs_a_program(same, needs, tmp_path, run, bare):
	needs("gdb", "gcc")
	(tmp_path / "program.c").write_text(PROGRAM_C)
	assert run(["gcc", "-g", "-O0", "-o", tmp_path / "program", tmp_path / "program.c"], bare).returncode == 0

	# Addresses and thread numbers of the debuggee are its own business.
	clean = lambda text: "\n".join(line for line in re.sub(r"0x[0-9a-f]+|\d{3,}", "N", text).splitlines()
	                               if "Thread" not in line and "threads" not in line)
	got = same(["gdb", "-nx", "-batch", "-ex", "set environment LD_PRELOAD", "-ex", "break twice", "-ex", "run",
	            "-ex", "print n", "-ex", "bt", "-ex", "finish", "-ex", "continue", tmp_path / "program"],
	           clean=clean, stderr=False, timeout=180)

	assert "$1 = 21" in got.stdout and "exited with code 03" in got.stdout


def test_gdb_of_a_shimmed_program(needs, run, backend, env, compile_c):
	"""Breakpoints in a program whose malloc is ours."""
	needs("gdb")
	got = run(["gdb", "-nx", "-batch", "-ex", f"set environment LD_PRELOAD {env()['LD_PRELOAD']}", "-ex",
	           "set environment MT_MIN_MB 0", "-ex", "run", compile_c("heap_family.c")],
	          {name: value for name, value in env().items() if name != "LD_PRELOAD"}, timeout=120)

	assert "exited normally" in got.stdout, got.stdout + got.stderr


def test_gcc_compiles_the_same(same, needs, tmp_path):
	needs("gcc")
	(tmp_path / "program.c").write_text(PROGRAM_C)
	script = "gcc -O2 -o program program.c && ./program; echo $?; sha256sum program; rm program"

	got = same(["/bin/sh", "-c", script], cwd=tmp_path)

	assert "twice 21 is 42\n3\n" in got.stdout


def test_cmake_builds_a_project(same, needs, tmp_path):
	needs("cmake", "make", "g++")
	(tmp_path / "CMakeLists.txt").write_text(
		"cmake_minimum_required(VERSION 3.10)\nproject(demo CXX)\n"
		"add_library(part STATIC part.cc)\nadd_executable(demo main.cc)\ntarget_link_libraries(demo part)\n")
	(tmp_path / "part.cc").write_text("int part(int n) { return n * 3; }\n")
	(tmp_path / "main.cc").write_text("#include <iostream>\nint part(int);\n"
	                                  "int main() { std::cout << part(14) << std::endl; return 4; }\n")
	script = "cmake -S . -B out >/dev/null && cmake --build out -j2 >/dev/null && out/demo; echo $?"

	got = same(["/bin/sh", "-c", script], cwd=tmp_path, timeout=300,
	           prepare=lambda: shutil.rmtree(tmp_path / "out", ignore_errors=True))

	assert got.stdout == "42\n4\n"


def test_perl_prints_the_same(same, needs):
	needs("perl")
	script = ('my %h; for my $i (1..40000) { push @{$h{$i % 777}}, "x" x ($i % 100); } my $n = 0; '
	          '$n += length join("", @{$h{$_}}) for keys %h; '
	          'my $pid = fork; if (!$pid) { my @a = map { $_ x 10 } 1..10000; exit(scalar(@a) % 200); } waitpid $pid, 0; '
	          'print "$n ", $? >> 8, "\\n"; (my $t = "a" x 100000) =~ s/a/bb/g; print length $t, "\\n"; die "last words\\n"')

	got = same(["perl", "-e", script])

	assert got.returncode != 0 and "last words" in got.stderr


def test_git_does_the_same(same, needs, tmp_path):
	needs("git")
	repository = tmp_path / "repository"
	script = r'''
set -e
export GIT_AUTHOR_DATE="2020-01-01T00:00:00Z" GIT_COMMITTER_DATE="2020-01-01T00:00:00Z" HOME="$PWD"
git init -q -b main repository
cd repository
git config user.name Someone; git config user.email someone@example.org
for i in 1 2 3 4 5 6 7 8; do
	seq 1 $((i * 500)) >file$i; echo $i >>common
	git add -A; git commit -q -m "commit $i"
done
git gc -q --aggressive
git log --stat | sha256sum
git diff HEAD~3 | sha256sum
git fsck --full 2>&1
git clone -q . ../clone && git -C ../clone log --oneline | wc -l
rm -rf ../clone
git rev-parse nothing
'''

	got = same(["/bin/bash", "-c", script], cwd=tmp_path,
	           prepare=lambda: [shutil.rmtree(path, ignore_errors=True) for path in (repository, tmp_path / "clone")])

	assert got.returncode == 128


def test_sqlite3_prints_the_same(same, needs, tmp_path):
	needs("sqlite3")
	database = tmp_path / "data.db"
	script = ("create table t(a integer primary key, b text, c real);"
	          "with recursive n(i) as (select 1 union all select i+1 from n where i<30000) "
	          "insert into t select i, printf('%0*d', i % 50 + 1, i), i / 7.0 from n;"
	          "create index x on t(b); update t set b = b || 'y' where a % 3 = 0; delete from t where a % 5 = 0;"
	          "select count(*), sum(length(b)), round(sum(c), 3) from t; pragma integrity_check; vacuum;"
	          "select b, count(*) from t group by b order by 2 desc, 1 limit 3; select no_such_thing;")

	same(["sqlite3", database, script], prepare=lambda: database.unlink(missing_ok=True))


@pytest.mark.parametrize("program, version", [("node", "node"), ("java", "java")])
def test_jits_start_under_the_shim(same, needs, program, version):
	needs(program)
	clean = lambda text: re.sub(r"[0-9.]+", "N", text)

	same([program, "--version" if program == "node" else "-version"], clean=clean)


def test_node_prints_the_same(same, needs, tmp_path):
	needs("node")
	(tmp_path / "program.js").write_text(r'''
const { Worker, isMainThread, parentPort, workerData } = require("worker_threads");
const crypto = require("crypto"), zlib = require("zlib"), child = require("child_process");
function work(seed) {
	const rows = [];
	for (let i = 0; i < 20000; i++) rows.push({ id: i, text: "x".repeat((i * seed) % 60) });
	return crypto.createHash("sha1").update(JSON.stringify(rows)).digest("hex");
}
if (!isMainThread) { parentPort.postMessage(work(workerData)); }
else {
	const results = {};
	let left = 3;
	for (let n = 1; n <= 3; n++) {
		new Worker(__filename, { workerData: n }).on("message", (m) => {
			results[n] = m;
			if (--left === 0) {
				console.log(results[1], results[2], results[3]);
				console.log(zlib.gunzipSync(zlib.gzipSync(Buffer.alloc(3000000, "ab"))).length);
				console.log(child.execSync("echo from a child").toString());
				process.on("SIGUSR2", () => { console.log("signalled"); process.exit(6); });
				process.kill(process.pid, "SIGUSR2");
				setTimeout(() => {}, 5000);
			}
		});
	}
}
''')

	got = same(["node", tmp_path / "program.js"])

	assert got.returncode == 6 and "signalled" in got.stdout


def test_java_runs_a_class_the_same(same, needs, tmp_path, run, bare):
	"""A JVM has its own heap, threads and SIGUSR1/2. The class file is built here, since a JRE has no javac."""
	needs("java")
	if shutil.which("javac") is None:
		# The runtime's own tools are Java programs too.
		tool = shutil.which("keytool")
		if tool is None:
			pytest.skip("no javac and no keytool")
		store = tmp_path / "store"
		got = same([tool, "-genkeypair", "-keystore", store, "-storepass", "secret1", "-keypass", "secret1", "-alias", "a",
		            "-dname", "CN=a", "-keyalg", "RSA", "-keysize", "2048"], stderr=False,
		           prepare=lambda: store.unlink(missing_ok=True))
		assert got.returncode == 0 and store.stat().st_size > 1000
		return
	(tmp_path / "Program.java").write_text(
		"public class Program { public static void main(String[] a) throws Exception {\n"
		"java.util.Map<Integer, String> m = new java.util.TreeMap<>();\n"
		"Thread[] t = new Thread[4]; for (int i = 0; i < 4; i++) { t[i] = new Thread(() -> { for (int j = 0; j < 100000; j++)\n"
		"Integer.toString(j).hashCode(); }); t[i].start(); } for (Thread x : t) x.join();\n"
		"for (int i = 0; i < 50000; i++) m.put(i, \"v\" + i); System.out.println(m.hashCode()); System.exit(9); } }\n")
	run(["javac", tmp_path / "Program.java"], bare)
	got = same(["java", "-cp", tmp_path, "Program"], stderr=False)
	assert got.returncode == 9


def test_stress_ng_verifies_its_memory(run, needs, backend, settings):
	needs("stress-ng")
	got = run(["stress-ng", "--malloc", "2", "--malloc-bytes", "64m", "--timeout", "2", "--verify"], settings, timeout=60)

	assert got.returncode == 0, got.stdout + got.stderr
	assert re.search(r"successful run completed|passed: 2", got.stdout + got.stderr)


def free_port():
	with socket.socket() as probe:
		probe.bind(("127.0.0.1", 0))
		return probe.getsockname()[1]


def test_redis_serves_and_saves_the_same(run, needs, spawn, wait_for, backend, settings, bare, tmp_path):
	"""A server that links a jemalloc of its own, forks to save, and reports its allocator."""
	needs("redis-server", "redis-benchmark", "redis-cli")
	port = free_port()
	cli = ["redis-cli", "-p", str(port)]
	server = spawn(["redis-server", "--port", str(port), "--save", "", "--dir", tmp_path, "--daemonize", "no",
	                "--bind", "127.0.0.1"], settings, stdout=open(tmp_path / "log", "w"))
	wait_for(lambda: run([*cli, "ping"], bare).stdout == "PONG\n", 20)

	bench = run(["redis-benchmark", "-p", str(port), "-q", "-n", "20000", "-c", "20", "-P", "16", "-d", "500", "-r", "5000",
	             "-t", "set,get,lpush,hset"], bare, timeout=120)
	assert bench.returncode == 0 and "GET" in bench.stdout
	assert run([*cli, "set", "key", "value"], bare).stdout == "OK\n"
	# A background save is a fork with a full heap.
	assert "started" in run([*cli, "bgsave"], bare).stdout
	wait_for(lambda: "rdb_bgsave_in_progress:0" in run([*cli, "info", "persistence"], bare).stdout, 30)
	assert "rdb_last_bgsave_status:ok" in run([*cli, "info", "persistence"], bare).stdout
	assert run([*cli, "memory", "purge"], bare).stdout == "OK\n"
	assert "used_memory:" in run([*cli, "info", "memory"], bare).stdout
	assert run([*cli, "get", "key"], bare).stdout == "value\n"
	assert run([*cli, "flushall"], bare).stdout == "OK\n"
	run([*cli, "shutdown", "nosave"], bare)

	assert server.wait(timeout=20) == 0
	assert "Bug report" not in (tmp_path / "log").read_text()
	assert (tmp_path / "dump.rdb").stat().st_size > 1000


def test_redis_is_cleaned_by_a_signal_that_it_has_no_handler_for(run, needs, spawn, wait_for, backend, env, bare, stats, awake,
                                                                 tmp_path):
	"""Without the shim the signal ends the program."""
	needs("redis-server", "redis-cli")
	port, settings = free_port(), env(MIN_MB=0)
	cli = ["redis-cli", "-p", str(port)]
	server = spawn(["redis-server", "--port", str(port), "--save", "", "--dir", tmp_path, "--bind", "127.0.0.1"], settings,
	               stdout=open("/dev/null", "w"))
	wait_for(lambda: run([*cli, "ping"], bare).stdout == "PONG\n", 20)
	awake(server.pid, settings)
	before = stats(server.pid, settings)["cleanups"]["signal"]

	os.kill(server.pid, signal.SIGUSR1)

	wait_for(lambda: stats(server.pid, settings)["cleanups"]["signal"] == before + 1, 10, "a cleanup")
	assert run([*cli, "ping"], bare).stdout == "PONG\n"
	run([*cli, "shutdown", "nosave"], bare)
	assert server.wait(timeout=20) == 0


def test_redis_benchmark_runs_under_the_shim(run, needs, spawn, wait_for, backend, settings, bare, tmp_path):
	"""The client too, with threads."""
	needs("redis-server", "redis-benchmark", "redis-cli")
	port = free_port()
	spawn(["redis-server", "--port", str(port), "--save", "", "--dir", tmp_path], bare, stdout=open("/dev/null", "w"))
	wait_for(lambda: run(["redis-cli", "-p", str(port), "ping"], bare).stdout == "PONG\n", 20)

	got = run(["redis-benchmark", "-p", str(port), "-q", "-n", "10000", "--threads", "2", "-t", "set,get"], settings,
	          timeout=60)

	assert got.returncode == 0 and "GET" in got.stdout
	assert "mtshim" not in got.stderr


def test_valgrind_runs_a_program_under_the_shim(run, needs, backend, settings):
	"""valgrind replaces malloc with its own. The shim must leave it and work on."""
	needs("valgrind")
	got = run(["valgrind", "-q", "--error-exitcode=99", "/bin/echo", "under valgrind"], settings, timeout=120)

	assert (got.returncode, got.stdout) == (0, "under valgrind\n"), got.stderr


def test_valgrind_finds_nothing_wrong_in_ls(run, needs, backend, env):
	"""ls calls reallocarray, which valgrind of Debian 12 does not replace as it does malloc and free."""
	needs("valgrind")
	got = run(["valgrind", "-q", "--error-exitcode=99", "ls", "-l", "/etc/ssl"], env(), timeout=120)

	assert got.returncode == 0, got.stderr


def test_a_long_pipeline_prints_the_same(same):
	script = "seq 1 200000 | rev | sort | rev | sort -n | awk '{s += $1} END {print s}' | tr 0-9 a-j"

	assert same(["/bin/bash", "-o", "pipefail", "-c", script]).stdout.strip()


def test_time_is_not_wasted_at_the_end(run, backend, settings):
	"""A process that ends does not wait for the worker thread. On a busy machine some take long without it."""
	took_s = []
	for _ in range(12):
		begin = time.monotonic()
		assert run(["/usr/bin/python3", "-c", "x = [bytes(2000) for _ in range(20000)]"], settings).returncode == 0
		took_s.append(time.monotonic() - begin)
		if sum(took < 1 for took in took_s) == 4:
			return

	pytest.fail(f"of 12 not 4 ended within a second: {took_s}")
