"""A terminal for tests of the live view: tmux with a server of its own, keys in, screens out."""
import os
import re
import subprocess
import time

import pytest

UTF8 = {"LC_ALL": "C.UTF-8"}


class Screen:
	"""A tmux server of its own with one window, in which a shell runs what the test asks for."""

	def __init__(self, name, environment, size):
		self.tmux = ["tmux", "-L", name, "-f", "/dev/null"]
		self.environment = {key: value for key, value in environment.items() if key not in ("TMUX", "NO_COLOR", "COLUMNS")}
		self.size = size

	def start(self):
		self.call("new-session", "-d", "-x", self.size[0], "-y", self.size[1],
		          "exec env PS1='shell$ ' bash --norc --noprofile -i")
		self.wait(r"shell\$")

	def call(self, *words):
		return subprocess.run([*self.tmux, *map(str, words)], env=self.environment, capture_output=True, timeout=20)

	def keys(self, *keys):
		self.call("send-keys", *keys)

	def type(self, text):
		self.call("send-keys", "-l", text)

	def text(self, colours=False):
		return self.call("capture-pane", "-p", *(["-e"] if colours else [])).stdout.decode(errors="replace")

	def wait(self, pattern, timeout=20):
		"""Until the screen shows it; answers the match."""
		end = time.monotonic() + timeout
		while True:
			text = self.text()
			found = re.search(pattern, text, re.MULTILINE)
			if found:
				return found
			if time.monotonic() > end:
				pytest.fail(f"not on the screen within {timeout} s: {pattern}\n{text}", pytrace=False)
			time.sleep(0.05)

	def wait_gone(self, pattern, timeout=20):
		end = time.monotonic() + timeout
		while re.search(pattern, self.text(), re.MULTILINE):
			assert time.monotonic() < end, f"still on the screen: {pattern}\n{self.text()}"
			time.sleep(0.05)

	def resize(self, columns, rows):
		self.call("resize-window", "-x", columns, "-y", rows)


@pytest.fixture
def screen(plain, tmp_path):
	"""screen(size): an empty window."""
	opened = []

	def open_one(size=(110, 30), **environment):
		name = f"mtctl-top-{os.getpid()}-{tmp_path.name[-20:]}-{len(opened)}"
		opened.append(Screen(name, dict(plain, **UTF8, **environment), size))
		opened[-1].start()
		return opened[-1]
	yield open_one
	for one in opened:
		one.call("kill-server")


@pytest.fixture
def top(screen, mtctl):
	"""top(pids, *options): the view, filtered to what the test has started where it names one pid; others may be there."""
	def start(*options, size=(110, 30), prefix="", **environment):
		one = screen(size, **environment)
		one.type(f"{prefix} {mtctl} top {' '.join(map(str, options))}; echo ended $?")
		one.keys("Enter")
		one.wait(r"mtctl top +\d+ process")
		return one
	return start


def line_of(one, pid):
	return one.wait(rf"^ *{pid} .*$")[0]


def rss_of(one, pid):
	figure = re.match(rf" *{pid} +([\d.]+)([KMG])", line_of(one, pid))
	return float(figure[1]) * {"K": 1 / 1024, "M": 1, "G": 1024}[figure[2]]
