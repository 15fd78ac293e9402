"""The commands mtshim and mtctl. Both end by exec: no Python process stays."""
import os
import re
import signal
import subprocess
import sys
from typing import List, Optional

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
path = sys.argv[1].encode(sys.getfilesystemencoding(), "surrogateescape").replace(b"\\n", b"\\\\012")  # as the kernel writes it
try:
	sys.exit(path not in open("/proc/self/maps", "rb").read())
except OSError:  # no /proc: what the loader refuses, it names on stderr
	pass
"""
# Of `mtctl run`, those that take a value only after =.
FLAGS = ("--enable", "--profile", "--check", "--cuda-empty-cache", "--cuda-rescue", "--exit-cleanup", "--pressure", "--quiet", "--help")
MTCTL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "mtctl")


def initial(name: str) -> Optional[str]:
	"""Returns a variable of the environment with which this process was started; None where it had none. Raises OSError
	without /proc."""
	with open("/proc/self/environ", "rb") as file:
		entries = file.read().split(b"\0")
	return next((os.fsdecode(entry).partition("=")[2] for entry in entries if entry.startswith(os.fsencode(name) + b"=")), None)


def restore_locale() -> None:
	"""Where no locale is set, Python has put LC_CTYPE into the environment (PEP 538). The program gets what was there before;
	without /proc nobody knows what that was, and LC_CTYPE stays."""
	if os.environ.get("LC_CTYPE") in ("C.UTF-8", "C.utf8", "UTF-8"):
		try:
			before = initial("LC_CTYPE")
		except OSError:
			return
		if before is None:
			del os.environ["LC_CTYPE"]
		else:
			os.environ["LC_CTYPE"] = before


def execute(path: str, words: List[str]) -> None:
	"""Returns only by OSError. Python ignores two signals, and sets a locale; the program must not inherit that."""
	restore_locale()
	before = [(number, signal.signal(number, signal.SIG_DFL)) for number in (signal.SIGPIPE, signal.SIGXFSZ)]
	try:
		os.execvp(path, words)
	finally:
		for number, handler in before:
			signal.signal(number, handler)


def one_line(text: str) -> str:
	return re.sub("[\0-\x1f\x7f]", lambda found: f"\\x{ord(found[0]):02x}", text)


def complain(text: str) -> None:
	"""On stderr, where there is one that takes it. Not by print(), which writes to stdout where stderr is closed."""
	if sys.stderr is not None:
		try:
			os.write(2, os.fsencode(text))
		except (OSError, ValueError):
			pass


def say(text: str) -> None:
	complain(f"mtshim: {one_line(text)}\n")


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
	said = os.fsdecode(done.stderr).replace(path, one_line(path)).strip().split("\n")
	refusal = [line for line in said if "cannot be preloaded" in line]
	if done.returncode == 0 and not refusal:
		return None
	return (refusal or said)[0] or f"the loader does not take {path}"


def program_of(words: List[str]) -> List[str]:
	"""The program and its arguments, behind the settings, as `mtctl run` reads them. A setting is --name=VALUE or --name VALUE,
	or --name alone where it is one of FLAGS."""
	index = 0
	while index < len(words) and words[index].startswith("-"):
		if words[index] == "--":
			return words[index + 1:]
		takes_next = words[index].startswith("--") and "=" not in words[index] and words[index] not in FLAGS
		index += 2 if takes_next else 1
	return words[index:]


def forget_library() -> None:
	"""Takes what an outer LD_PRELOAD has of the library out of it."""
	entries = [entry for entry in re.split("[ :]+", os.environ.get("LD_PRELOAD", "")) if not entry.endswith("libmtshim.so")]
	os.environ["LD_PRELOAD"] = ":".join(filter(None, entries))
	if not os.environ["LD_PRELOAD"]:
		del os.environ["LD_PRELOAD"]


def run(words: List[str]) -> int:
	reason = why_not()
	if not reason:
		if not os.path.exists("/proc/self/exe"):  # by which mtctl finds the library
			os.environ["MTSHIM_LIBRARY"] = library_path()
		try:
			execute(MTCTL, ["mtctl", "run", *words])
		except OSError as error:
			reason = f"{MTCTL}: {error.strerror}"
	program = program_of(words)
	if not program:  # wrong use, or --help
		return mtctl("run", *words)
	say(f"running {program[0]} without the library: {reason}")
	forget_library()
	try:
		execute(program[0], program)
	except OSError as error:
		say(f"{program[0]}: {error.strerror}")
		return 127 if isinstance(error, FileNotFoundError) else 126
	return 0


def show(text: str) -> int:
	"""Writes to stdout, as a C program does: a reader that has gone ends the process."""
	signal.signal(signal.SIGPIPE, signal.SIG_DFL)
	try:
		if sys.stdout is not None:
			print(text, end="", flush=True)
	except OSError as error:
		say(f"stdout: {error.strerror}")
		os._exit(1)  # not by way of Python, which would try to write again
	return 0


def main() -> int:
	words = sys.argv[1:]
	if words[:1] == ["run"]:
		return run(words[1:])
	if words == ["--version"]:
		from . import __version__
		return show(f"mtshim {__version__}\n")
	if words in (["--help"], ["-h"], ["help"]):
		return show(USAGE)
	complain(USAGE)
	return 2


def mtctl(*words: str) -> int:
	"""The program of that name in this package takes the place of this process."""
	try:
		execute(MTCTL, ["mtctl", *(words or sys.argv[1:])])
	except OSError as error:
		say(f"{MTCTL}: {error.strerror}")
	return 126


if __name__ == "__main__":
	sys.exit(main())
