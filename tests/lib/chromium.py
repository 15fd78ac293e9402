"""A real browser for tests: Debian's chromium without a window, told what to do by the DevTools protocol over two pipes
(--remote-debugging-pipe: JSON ended by NUL, so that neither a port nor a websocket is needed). It reaches this machine only.
"""
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         "--hide-scrollbars", "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-extensions", "--disable-default-apps",
         "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "--remote-debugging-pipe")
# One process draws all pages, and none waits to: for tests of a page, which is cheaper then, and not of the browser.
FEW_PROCESSES = ("--in-process-gpu", "--renderer-process-limit=1", "--disable-features=SpareRendererForSitePerProcess,BackForwardCache")
KEYS = {"Enter": 13, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
ANSWER_S = 60  # a busy machine


class Chromium:
	"""One browser process; its tabs are kept by tab()."""

	def __init__(self, *flags):
		self.profile = tempfile.mkdtemp(prefix="mtshim-chromium-")
		to_read, self.write_end = os.pipe()
		self.read_end, to_write = os.pipe()
		# It wants them as 3 and 4. Not every shell takes a number of two digits.
		command = f'exec chromium "$@" 3<&{to_read} 4>&{to_write}'
		self.process = subprocess.Popen(["/bin/bash", "-c", command, "bash", *FLAGS, *flags, f"--user-data-dir={self.profile}"],
		                                pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
		                                stderr=subprocess.DEVNULL, start_new_session=True,
		                                env=dict(os.environ, HOME=self.profile))
		os.close(to_read)
		os.close(to_write)
		self.rest, self.last, self.events = b"", 0, []

	def close(self):
		try:
			os.killpg(self.process.pid, signal.SIGKILL)
		except ProcessLookupError:
			pass
		self.process.wait()
		os.close(self.read_end)
		os.close(self.write_end)
		shutil.rmtree(self.profile, ignore_errors=True)

	def _message(self, end):
		while b"\0" not in self.rest:
			ready, _, _ = select.select([self.read_end], [], [], max(0, end - time.monotonic()))
			piece = os.read(self.read_end, 1 << 20) if ready else b""
			if not piece:
				pytest.fail("chromium does not answer" if not ready else "chromium has ended")
			self.rest += piece
		text, _, self.rest = self.rest.partition(b"\0")
		return json.loads(text)

	def call(self, method, session=None, **params):
		self.last += 1
		message = {"id": self.last, "method": method, "params": params}
		if session:
			message["sessionId"] = session
		os.write(self.write_end, json.dumps(message).encode() + b"\0")
		end = time.monotonic() + ANSWER_S
		while True:
			got = self._message(end)
			if got.get("id") == self.last:
				assert "error" not in got, f"{method}: {got['error']}"
				return got["result"]
			if "method" in got:
				self.events.append(got)


class Tab:
	"""One page. `complaints` has what went wrong in it: exceptions, console errors, what the content policy has stopped, files
	that are not there; not what the server refuses under /api/, of which chromium makes a note by itself."""

	def __init__(self, browser, width=1280, height=900):
		self.browser = browser
		self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
		self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
		for domain in ("Page", "Runtime", "Log"):
			self.call(domain + ".enable")
		self.size = width, height
		self.resize(width, height)

	def call(self, method, **params):
		return self.browser.call(method, self.session, **params)

	def clear(self):
		"""An empty page as that of a new tab, in the process that there is: a new one takes half a second."""
		self.call("Page.navigate", url="about:blank")
		self.wait("location.href === 'about:blank'")
		self.call("Emulation.setEmulatedMedia", features=[])
		self.resize(*self.size)
		self.browser.events.clear()

	def resize(self, width, height, phone=False):
		self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

	def dark(self, on):
		scheme = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
		self.call("Emulation.setEmulatedMedia", features=[scheme])

	def open(self, address):
		self.call("Page.navigate", url=address)
		self.wait("location.href !== 'about:blank' && document.readyState === 'complete'")

	def value(self, expression):
		"""Returns the value of a JavaScript expression; awaits promises."""
		got = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
		assert "exceptionDetails" not in got, got["exceptionDetails"]
		return got["result"].get("value")

	def wait(self, expression, seconds=60):
		"""Waits for the first true value of an expression and returns it."""
		end = time.monotonic() + seconds
		while not (value := self.value(expression)):
			if time.monotonic() > end:
				seen = self.value("document.body.innerText")
				pytest.fail(f"not within {seconds} s: {expression}\n{seen}\n{self.complaints}")
			time.sleep(0.05)
		return value

	def text(self, selector):
		return self.value(f"document.querySelector({json.dumps(selector)})?.textContent")

	def place(self, selector):
		"""Scrolls an element into view and returns its middle."""
		return self.value(f"""(() => {{ const node = document.querySelector({json.dumps(selector)});
			node.scrollIntoView({{block: "center"}}); const box = node.getBoundingClientRect();
			return [box.x + box.width / 2, box.y + box.height / 2]; }})()""")

	def point(self, x, y):
		self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

	def click(self, selector):
		"""Clicks with the mouse, so that a covered or disabled element does not get the click."""
		x, y = self.place(selector)
		for kind in ("mousePressed", "mouseReleased"):
			self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

	def press(self, key):
		code = {"windowsVirtualKeyCode": KEYS[key]} if key in KEYS else {"text": key}
		enter = {"text": "\r"} if key == "Enter" else {}
		self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **code, **enter)
		self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **code)

	def type(self, text):
		self.call("Input.insertText", text=text)

	@property
	def complaints(self):
		found = []
		for event in self.browser.events:
			params, method = event["params"], event["method"]
			if event.get("sessionId") != self.session:
				continue
			if method == "Runtime.exceptionThrown":
				details = params["exceptionDetails"]
				found.append(details.get("exception", {}).get("description", details["text"]))
			elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
				found.append(" ".join(str(one.get("value", one.get("description"))) for one in params["args"]))
			elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning") and \
					not (params["entry"]["source"] == "network" and "/api/" in params["entry"].get("url", "")):
				found.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
		return found
