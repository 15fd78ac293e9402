"""The commands mtshim and mtctl. Both end by exec: no Python process stays."""
import os
import re
import signal
import subprocess
import sys
from typing import List, NoReturn, Optional, Tuple

from . import library_path

USAGE = """usage: mtshim run [--SETTING=VALUE ...] [--] PROGRAM [ARGUMENT ...]
       mtshim --help | --version

Runs a program under libmtshim.so, which returns freed memory to the kernel. An existing
LD_PRELOAD stays, behind it. Where the library cannot be loaded (it is missing, or made for
another machine or libc), one line on stderr says so and the program runs without it.
The exit code is that of the program; 127: not found, 126: cannot be run, 2: wrong usage.
`mtshim run --help` lists the settings; `mtctl` shows and controls what runs.
"""
TRIAL = """import sys
try:
	sys.exit(sys.argv[1] not in open("/proc/self/maps").read())
except OSError:  # no /proc: what the loader refuses, it names on stderr
	pass
"""
FLAGS = ("--enable", "--profile", "--cuda-empty-cache", "--exit-cleanup", "--pressure", "--help")  # take a value only after =
MTCTL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "mtctl")


def execute(path: str, words: List[str]) -> None:
	"""Returns only by OSError. Python ignores two signals; the program must not inherit that."""
	for number in (signal.SIGPIPE, signal.SIGXFSZ):
		signal.signal(number, signal.SIG_DFL)
	os.execvp(path, words)


def say(text: str) -> None:
	print(f"mtshim: {text}", file=sys.stderr, flush=True)


def why_not() -> Optional[str]:
	"""Returns why the loader does not take the library, or None where it does. Asks the loader itself, by a trial: it alone
	knows about architecture, libc, symbol versions, and paths that LD_PRELOAD cannot hold."""
	try:
		path = library_path()
	except FileNotFoundError as error:
		return str(error)
	if "$" in path:
		return f"{path} cannot be in LD_PRELOAD, where $ begins a word of the loader's"
	try:
		done = subprocess.run([sys.executable, "-I", "-S", "-c", TRIAL, path],
		                      env={**os.environ, "LD_PRELOAD": path, "MT_ENABLE": "0"},
		                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
	except OSError:  # no process or no descriptor to be had: the program may yet run, and the loader then says what it thinks
		return None
	said = done.stderr.decode(errors="replace").strip().splitlines()
	refusal = [line for line in said if "cannot be preloaded" in line]
	if done.returncode == 0 and not refusal:
		return None
	return [*refusal, *said, f"the loader does not take {path}"][0]


def split(words: List[str]) -> Tuple[List[str], List[str]]:
	"""Settings and the program with its arguments, as `mtctl run` reads them: a setting is --name=VALUE or --name VALUE, or
	--name alone where it is one of FLAGS."""
	index = 0
	while index < len(words) and words[index].startswith("-"):
		if words[index] == "--":
			return words[:index], words[index + 1:]
		takes_next = words[index].startswith("--") and "=" not in words[index] and words[index] not in FLAGS
		index += 2 if takes_next else 1
	return words[:index], words[index:]


def forget_library() -> None:
	"""Takes what an outer LD_PRELOAD has of the library out of it."""
	entries = [entry for entry in re.split("[ :]+", os.environ.get("LD_PRELOAD", "")) if not entry.endswith("libmtshim.so")]
	os.environ["LD_PRELOAD"] = ":".join(filter(None, entries))
	if not os.environ["LD_PRELOAD"]:
		del os.environ["LD_PRELOAD"]


def run(words: List[str]) -> int:
	settings, program = split(words)
	reason = why_not() if program else None
	if not reason:
		try:
			execute(MTCTL, ["mtctl", "run", *settings, *(["--", *program] if program else [])])
		except OSError as error:
			reason = f"{MTCTL}: {error.strerror}"
	if not program:
		say(str(reason))
		return 126
	say(f"running {program[0]} without the library: {reason}")
	forget_library()
	try:
		execute(program[0], program)
	except OSError as error:
		say(f"{program[0]}: {error.strerror}")
		return 127 if isinstance(error, FileNotFoundError) else 126
	return 0


def main() -> int:
	words = sys.argv[1:]
	if words[:1] == ["run"]:
		return run(words[1:])
	if words == ["--version"]:
		from . import __version__
		print(f"mtshim {__version__}")
		return 0
	is_help = words in (["--help"], ["-h"], ["help"])
	print(USAGE, end="", file=sys.stdout if is_help else sys.stderr)
	return 0 if is_help else 2


def mtctl() -> NoReturn:
	"""The program of that name in this package takes the place of this process."""
	try:
		execute(MTCTL, ["mtctl", *sys.argv[1:]])
	except OSError as error:
		say(f"{MTCTL}: {error.strerror}")
	sys.exit(126)


if __name__ == "__main__":
	sys.exit(main())
