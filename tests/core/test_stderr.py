"""The shim's lines go to the program's stderr, and into nothing else that has its number."""
import os
import pty
import socket

import pytest

# Lines by the program's thread, by the shim's, and (the last) by the allocator at the end.
TALKING = {"MIN_MB": 0, "PROFILE": 1, "LOG_LEVEL": "debug", "TICK_MS": 10, "MALLOC_CONF": "stats_print:true"}


@pytest.fixture
def talk(env, compile_c, tmp_path, spawn, backend):
	"""talk(how, **Popen options): runs stderr_taken.c to its end, answers its file's content."""
	def one(how, **options):
		process = spawn([compile_c("stderr_taken.c"), how, tmp_path / "data"], env(**TALKING), **options)
		assert process.wait(timeout=30) == 0
		assert (tmp_path / "data.done").exists()
		return (tmp_path / "data").read_bytes() if (tmp_path / "data").exists() else None
	return one


@pytest.mark.parametrize("how", ["database", "output"])
def test_no_line_goes_into_the_file_that_a_daemon_opens_in_the_place_of_stderr(talk, how):
	assert talk(how) == b"precious"


def test_no_line_goes_into_a_data_file_that_the_program_begins_with_as_descriptor_2(talk, tmp_path):
	with open(tmp_path / "given", "w+b") as given:
		talk("keeps", stderr=given)
	assert (tmp_path / "given").read_bytes() == b""


def test_no_line_goes_to_the_client_of_a_service_that_inetd_started(talk):
	ours, theirs = socket.socketpair()
	with ours, theirs:
		talk("keeps", stdin=theirs, stdout=theirs, stderr=theirs)
		theirs.close()
		assert ours.recv(65536) == b""


def test_no_line_goes_to_a_log_that_the_program_puts_in_the_place_of_stderr(talk):
	assert talk("redirect") == b""


def test_no_line_goes_anywhere_where_stderr_is_closed_from_the_start(run, env, compile_c, tmp_path, backend):
	"""The first file that the program opens is its descriptor 2."""
	got = run(["/bin/sh", "-c", 'exec "$0" "$@" 2>&-', compile_c("stderr_taken.c"), "output", tmp_path / "data"], env(**TALKING))

	assert got.returncode == 0 and (tmp_path / "data").read_bytes() == b"precious"


def read_all(fd):
	said = b""
	try:
		while chunk := os.read(fd, 65536):
			said += chunk
	except OSError: # a terminal whose other side is closed
		pass
	return said


def is_told(said):
	return b"cleanup reason=api" in said and b"cleanup reason=signal" in said


def test_lines_of_every_thread_reach_a_pipe(talk):
	ours, theirs = os.pipe()
	talk("keeps", stderr=theirs)
	os.close(theirs)
	assert is_told(read_all(ours))


def test_lines_of_every_thread_reach_a_file(talk, tmp_path):
	with open(tmp_path / "given", "wb") as given:
		talk("keeps", stderr=given)
	assert is_told((tmp_path / "given").read_bytes())


def test_lines_of_every_thread_reach_a_terminal(talk, env):
	"""It is open for reading and writing."""
	ours, theirs = pty.openpty()
	child = os.fork()
	if child == 0:
		said = read_all(ours) if os.close(theirs) is None else b""
		os._exit(0 if is_told(said) else 1)
	os.close(ours)
	talk("keeps", stderr=theirs)
	os.close(theirs)
	assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


BACKGROUND = """
import os, sys, termios
mode = termios.tcgetattr(0)
mode[3] |= termios.TOSTOP
termios.tcsetattr(0, termios.TCSANOW, mode)
child = os.fork()
if child == 0:
	os.setpgid(0, 0)
	os.execve("/bin/true", ["/bin/true"], dict(os.environ, LD_PRELOAD=sys.argv[1], MT_TICK_MS="rubbish"))
_, status = os.waitpid(child, os.WUNTRACED)
if os.WIFSTOPPED(status):
	os.kill(child, 9)
os._exit(os.WIFSTOPPED(status))
"""


def test_a_line_does_not_stop_a_job_in_the_background_of_a_terminal(shim):
	"""stty tostop: the kernel stops a job that writes."""
	pid, terminal = pty.fork()
	if pid == 0:
		os.execv("/usr/bin/python3", ["python3", "-c", BACKGROUND, str(shim)])
	text = b""
	try:
		while more := os.read(terminal, 4096):
			text += more
	except OSError:  # EIO: the last one has closed it
		pass
	_, status = os.waitpid(pid, 0)
	os.close(terminal)

	assert status == 0, "the job was stopped"
	assert b"MT_TICK_MS" in text
