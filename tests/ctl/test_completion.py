"""The completions of bash, zsh and fish: made from mtctl's own help, and asked as the shells ask them."""
import fcntl
import functools
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import pytest

from mtctl_helpers import ROOT
from mtctl_helpers import ctl, fake, plain  # noqa: F401 (fixtures)

# One worker makes the files.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("completion")]

SHELLS = ("bash", "zsh", "fish")
FILES = {"bash": "mtctl", "zsh": "_mtctl", "fish": "mtctl.fish"}
BREAKS = re.compile(r"([=:@<>;|&()])")
BASH = """
source /usr/share/bash-completion/bash_completion
source "$1"
COMP_LINE=$2 COMP_POINT=${#2} COMP_TYPE=$3
shift 3
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_mtctl 2>/dev/null
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def scripts(mtctl, tmp_path_factory):
	"""The folder with the three files, made again."""
	folder = tmp_path_factory.mktemp("completion")
	for shell in SHELLS:
		done = subprocess.run([ROOT / "scripts/generate/completion", mtctl, shell], capture_output=True, text=True)
		assert done.returncode == 0, done.stderr
		(folder / FILES[shell]).write_text(done.stdout)
	return folder


@pytest.fixture
def places(plain, mtctl, tmp_path):
	"""An environment in which `mtctl` is the one that was built, and a folder with a file and a folder in it."""
	(tmp_path / "there").mkdir()
	(tmp_path / "there" / "run.jsonl").write_text("")
	(tmp_path / "there" / "folder").mkdir()
	environment = dict(plain, PATH=f"{mtctl.parent}:{plain['PATH']}", HOME=str(tmp_path), TERM="dumb", LANG="C.UTF-8")
	return environment, tmp_path / "there"


def split_as_readline(line):
	words = []
	for word in line.split(" "):
		words += [part for part in BREAKS.split(word) if part] or [""]
	return words


def ask_bash(scripts, places, line, kind=9):
	environment, folder = places
	command = ["bash", "--norc", "-c", BASH, "bash", scripts / "mtctl", line, str(kind), *split_as_readline(line)]
	done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=20)
	return [word for word in done.stdout.splitlines() if word]


def ask_fish(scripts, places, line):
	environment, folder = places
	command = ["fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", str(scripts / "mtctl.fish"), line]
	done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=20)
	return done.stdout.splitlines()


def read_until(terminal, text, timeout=20):
	seen, end = "", time.monotonic() + timeout
	while text not in seen and time.monotonic() < end:
		if select.select([terminal], [], [], 0.1)[0]:
			seen += os.read(terminal, 65536).decode(errors="replace")
	assert text in seen, seen
	return seen


def ask_zsh(scripts, places, line):
	"""In a real zsh on a terminal, whose compadd is watched."""
	environment, folder = places
	captured = folder.parent / "captured"
	captured.write_text("")
	child, terminal = pty.fork()
	if child:
		# A list is cut to the width of the terminal.
		fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 50, 400, 0, 0))
	if child == 0:
		os.chdir(folder)
		own = dict(environment, CAPTURE=str(captured), PS1="", FPATH=fpath(scripts), DUMP=str(scripts / "zcompdump"))
		os.execve("/bin/zsh", ["zsh", "-f", "-i"], own)
	try:
		os.write(terminal, f"source {ROOT}/tests/ctl/completion_capture.zsh\n".encode())
		read_until(terminal, "ready> ")
		os.write(terminal, line.encode() + b"\t")
		end = time.monotonic() + 20
		while not captured.read_text().endswith("done\n") and time.monotonic() < end:
			select.select([terminal], [], [], 0.05)
		return captured.read_text().splitlines()[:-1]
	finally:
		os.close(terminal)
		os.kill(child, 9)
		os.waitpid(child, 0)


@functools.cache
def fpath(scripts):
	own = subprocess.run(["zsh", "-f", "-c", "print -r -- $FPATH"], capture_output=True, text=True).stdout.strip()
	return f"{scripts}:{own}"


ASK = {"bash": ask_bash, "zsh": ask_zsh, "fish": ask_fish}


@pytest.fixture(params=SHELLS)
def offered(request, scripts, places):
	"""offered(line): the words that a shell would offer there, without descriptions."""
	def ask(line):
		words = [re.split(r"\t|  ", word)[0].rstrip() for word in ASK[request.param](scripts, places, line)]
		return [word for word in words if word]
	ask.shell = request.param
	return ask


def commands_of(ctl):
	return [name for name in re.findall(r"^  ([a-z][a-z-]*) ", ctl("help").stdout, re.MULTILINE) if name != "mtctl"]


def test_the_shells_and_their_linters_accept_the_files(scripts):
	for command in (["bash", "-n"], ["zsh", "-n"], ["fish", "--no-execute"], ["shellcheck", "--shell=bash"]):
		name = FILES["bash" if command[0] == "shellcheck" else command[0]]
		done = subprocess.run([*command, scripts / name], capture_output=True, text=True)
		assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), command


def test_every_command_is_offered(ctl, offered):
	words = offered("mtctl ")

	assert set(commands_of(ctl)) <= set(words) and "help" in words
	assert len(words) == len(set(words))


def test_options_of_a_command_are_those_of_its_help(ctl, offered):
	help = ctl("help", "sites").stdout
	options = {word.rstrip("=") for word in offered("mtctl sites --")}

	assert options == set(re.findall(r"^  (--[a-z]+)", help, re.MULTILINE)) | {"--help"}


def test_a_process_is_offered_with_its_command_as_the_description(scripts, places, offered, fake, plain):
	# Two: bash completes the only one there is, and so has no place to describe it.
	pids = [fake(environment=plain) for _ in range(2)]

	assert set(map(str, pids)) <= set(offered("mtctl trim "))
	shown = ASK[offered.shell](scripts, places, "mtctl trim ")
	assert any("fake_shim.py" in line for line in shown), "\n".join(shown)


def test_settings_are_offered_behind_the_process(offered):
	names = offered("mtctl set 4711 gc_")

	assert [name.partition("=")[0] for name in names][:1] == ["gc_rounds"]
	assert "arena_max" not in str(offered("mtctl set 4711 ar"))  # cannot change in a running process


def test_values_of_a_setting(offered):
	assert {"on", "off"} <= {word.rpartition("=")[2] for word in offered("mtctl set 4711 pressure=")}
	assert {"account", "auto"} == {word.rpartition("=")[2] for word in offered("mtctl run --cuda=a")}


def test_run_completes_the_program_and_then_what_that_takes(offered):
	assert "mtctl" in offered("mtctl run mtct")
	assert "--gc-rounds" in [word.rstrip("=") for word in offered("mtctl run --gc")]
	assert any("run.jsonl" in word for word in offered("mtctl run --gc-rounds=5 -- cat ru"))


def test_files_are_offered_where_an_option_takes_one(offered):
	assert any("run.jsonl" in word for word in offered("mtctl sites 4711 --pprof="))


def test_help_takes_a_command(offered):
	assert "trim" in offered("mtctl help tr")


def test_bash_never_inserts_the_description_of_a_process(scripts, places, fake, plain):
	first, second = fake(environment=plain), fake(environment=plain)

	listed = ask_bash(scripts, places, "mtctl trim ")
	assert any(line.startswith(f"{first}  (") for line in listed)
	assert os.path.commonprefix(listed).strip().isdigit() or os.path.commonprefix(listed) == ""
	assert ask_bash(scripts, places, f"mtctl trim {second}") == [str(second)]
	assert str(first) in ask_bash(scripts, places, "mtctl trim ", kind=37)


def test_the_list_of_processes_is_clean_text_a_line_for_each(ctl, spawn, env, wait_for):
	"""What a program calls itself comes from anybody."""
	hostile = spawn(["bash", "-c", "exec -a $'\\e]0;owned\\a\\nx\\t\\xff' /usr/bin/python3 -c 'input()'"], env(MIN_MB=0))

	def lines():
		return [line for line in ctl("ps", "--pids").stdout.split("\n") if line.startswith(f"{hostile.pid}\t?")]

	assert wait_for(lines) == [f"{hostile.pid}\t?]0;owned??x?? -c input()"]
	assert ctl("ps", "--pids", "--json").returncode == 2
