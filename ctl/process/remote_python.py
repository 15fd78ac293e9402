"""Runs scripts in a process by sys.remote_exec() (CPython 3.14, PEP 768). mtctl runs this text in an interpreter of the same version.

  python3.14 -I -S -c TEXT PID UID gc
  python3.14 -I -S -c TEXT PID UID lines MS DEPTH BLOCKS "LAYOUT" "OUTCOMES" "CUTS"

Standard output, a line each: "begun OWN", "collected OBJECTS NS", "done", or "failed KIND TEXT", which is the last. A file of lines
(core/dump_layout.h) goes to descriptor 3. Standard input closed: end the look now, as after the end of mtctl.
Nothing that comes back from the process is trusted: lines of numbers, bounded, and names in hexadecimal.
"""
import os
import select
import signal
import struct
import sys
import tempfile
import time

START_S, END_S = 2, 10  # until the main thread runs a script
TOOK_S = 120  # from there to its end
CHECK_S = 0.2
BYTES_MAX = 64 << 20
BLOCK_BYTES = 60  # of tracemalloc's table, for each block
OWN_BLOCKS_MAX = 1000000
READINGS = 6
# In stacks our code is the file <mtctl>, and this line of <string>, the name that Python gives to a script of remote_exec.
OUR_LINE = 5003

# What the process runs, in a namespace of its own. A result is one file: it begins with R, ends with E, and other lines begin with the letter
# of what they tell. A late script does nothing.
FRAME = """
try:
    import sys, time, gc, posix, _thread
    if time.monotonic() < {until}:
        out = ["R"]
        with open({result!r}, "wb") as file:
            file.write(b"R")
        began = time.perf_counter_ns()
{body}
        out.append("T %d" % (time.perf_counter_ns() - began))
        with open({result!r}, "wb") as file:
            file.write(("\\n".join(out) + "\\nE\\n").encode())
except KeyboardInterrupt:
    _thread.interrupt_main()
except BaseException:
    pass
"""
COLLECT = "out.append('G %d' % gc.collect())"
# The callback ends tracing where mtctl's side was killed, and in a forked child.
START = """
import _tracemalloc
def mtctl_expire(phase, info, end={end}, pid=posix.getpid(), trace=_tracemalloc, gc=gc, time=time, posix=posix):
    if time.monotonic() > end or posix.getpid() != pid:
        trace.stop()
        gc.callbacks[:] = [one for one in gc.callbacks if one is not mtctl_expire]
several = sys.modules.get("_interpreters")
word = "DONE"
if not sys._is_gil_enabled():
    word = "FREE_THREADED"
elif several and len(several.list_all()) > 1:
    word = "SUBINTERPRETERS"
elif any(getattr(one, "__name__", "") == "mtctl_expire" for one in gc.callbacks):
    word = "BUSY"
own = _tracemalloc.is_tracing()
if word == "DONE" and not own:
    gc.callbacks.append(mtctl_expire)
    _tracemalloc.start({depth})
    mtctl_expire.mark = object()
out.append("O %s %d %d" % (word, own, _tracemalloc.get_traceback_limit()))
"""
CHECK = """
import _tracemalloc
out.append("B %d" % _tracemalloc.get_tracemalloc_memory())
"""
# The tracing is ours as long as it knows the object that START has made; Python keeps none of these for reuse.
OURS = """
import _tracemalloc
mark = [one for one in gc.callbacks if getattr(one, "__name__", "") == "mtctl_expire"]
ours = bool(mark) and _tracemalloc._get_object_traceback(mark[0].mark) is not None
"""
# What it allocates is traced, and slow: so sizes are added up only at the end. Within one call of _get_traces() equal stacks are one object.
READ = OURS + """
tables = _tracemalloc.get_tracemalloc_memory()
out.append("B %d" % tables)
if not (ours or {own} and _tracemalloc.is_tracing()):
    out.append("X CLEARED")
elif tables > {tables_max}:
    out.append("X TOO_MANY")
else:
    sums, names = dict(), dict()
    for _, size, frames, _ in _tracemalloc._get_traces():
        sizes = sums.get(frames)
        if sizes is None:
            sums[frames] = [size]
        else:
            sizes.append(size)
    for frames, sizes in sums.items():
        if frames[0][0] != "<mtctl>" and frames[0] != ("<string>", 5003):
            out.append("S %d %d " % (sum(sizes), len(sizes)) + " ".join("%d:%d" % (names.setdefault(name, len(names)), line) for name, line in frames))
    out += ["N " + name.encode("utf-8", "replace").hex() for name in names]
    del sums
"""
STOP = OURS + """
if ours:
    _tracemalloc.stop()
gc.callbacks[:] = [one for one in gc.callbacks if one not in mark]
"""


class Failed(Exception):
	"""KIND, TEXT."""


class Late(Exception):
	"""The main thread did not run the script in time. Whether it waits in a system call."""


def say(text):
	try:
		print(text, flush=True)
	except OSError:
		pass  # mtctl has ended; the look is ended in order all the same


class Process:
	def __init__(self, pid, uid):
		self.pid = pid
		self.uid = uid
		self.folder = tempfile.mkdtemp(prefix=f"mtctl-{pid}-", dir="/tmp")
		os.chmod(self.folder, 0o711)
		self.steps = 0

	def execute(self, script):
		try:
			sys.remote_exec(self.pid, script)
		except PermissionError:
			raise Failed("foreign", "the kernel does not allow it: kernel.yama.ptrace_scope, a container's seccomp filter, or no CAP_SYS_PTRACE")
		except ProcessLookupError:
			raise Failed("ended", "the process has ended")
		except (RuntimeError, OSError) as error:
			if not os.path.exists(f"/proc/{self.pid}"):
				raise Failed("ended", "the process has ended")
			raise Failed("refused", "%s: %s" % (type(error).__name__, str(error).replace("\n", " ")))

	def waits(self):
		try:
			with open(f"/proc/{self.pid}/stat") as file:
				return file.read().rpartition(")")[2].split()[0] in "SD"
		except OSError:
			raise Failed("ended", "the process has ended")

	def await_result(self, fd, until):
		while not is_whole(fd):
			if time.monotonic() > until + (TOOK_S if os.fstat(fd).st_size else 0.1) or not os.path.exists(f"/proc/{self.pid}"):
				waits = self.waits()
				# An empty script in its place: the process would complain of one that is gone.
				self.execute("/dev/null")
				raise Late(waits)
			time.sleep(0.002)
		return parse(os.pread(fd, BYTES_MAX, 0).decode("ascii", "replace"))

	def run(self, body, seconds):
		"""Returns the lines of the result, by their first letter."""
		self.steps += 1
		script, result = (os.path.join(self.folder, "%d.%s" % (self.steps, ending)) for ending in ("py", "out"))
		until = time.monotonic() + seconds
		text = FRAME.format(until=until, body="".join("        " + line + "\n" for line in body.splitlines()), result=result)
		with open(script, "w") as file:
			file.write("\n" * (OUR_LINE - 1) + f"exec(compile({text!r}, '<mtctl>', 'exec'), dict())\n")
		os.chmod(script, 0o644)
		fd = os.open(result, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
		try:
			os.fchown(fd, self.uid, -1)
			self.execute(script)
			return self.await_result(fd, until)
		finally:
			os.close(fd)
			os.unlink(result)
			os.unlink(script)

	def close(self):
		for name in os.listdir(self.folder):
			os.unlink(os.path.join(self.folder, name))
		os.rmdir(self.folder)


def is_whole(fd):
	size = os.fstat(fd).st_size
	if size > BYTES_MAX:
		raise Failed("refused", "its result is too large")
	return size > 2 and os.pread(fd, 3, size - 3) == b"\nE\n"


def parse(text):
	lines = {}
	for line in text.splitlines():
		lines.setdefault(line[:1], []).append(line[2:])
	return lines


def number(lines, letter):
	return int(lines[letter][0]) if lines else 0


# ---- the file of lines ----

class Look:
	def __init__(self, layout, outcomes, cuts):
		self.magic, self.version, self.stacks_max, self.frames_max, self.names_max = map(int, layout.split())
		self.outcomes = {name: at for at, name in enumerate(outcomes.split())}
		self.cuts = {name: at for at, name in enumerate(cuts.split())}
		self.outcome, self.cut = "DONE", "NONE"
		self.own = self.depth = self.stopped = self.longest = self.tables = self.blocks = 0
		self.began = self.ended = 0
		self.readings = []  # (ns since the beginning, {stack: (bytes, count)})

	def note(self, lines):
		took = number(lines, "T")
		self.stopped += took
		self.longest = max(self.longest, took)

	def add(self, lines):
		if not lines:
			return
		self.tables = number(lines, "B")
		if "X" in lines:
			self.outcome = lines["X"][0]
			return
		names = [bytes.fromhex(name) for name in lines.get("N", [])]
		stacks = {}
		for line in lines.get("S", []):
			size, count, *frames = line.split()
			stack = tuple((names[int(name)], int(line)) for name, line in (frame.split(":") for frame in frames))
			before = stacks.get(stack, (0, 0))
			stacks[stack] = (before[0] + int(size), before[1] + int(count))
		self.blocks = sum(count for _, count in stacks.values())
		self.readings.append((time.monotonic_ns() - self.began, stacks))

	def content(self):
		"""Stacks, frames, names; those beyond the room of the file are left out."""
		packed, frames, names, offsets, left = bytearray(), bytearray(), bytearray(), {}, [0, 0]
		last = self.readings[-1][1]
		stacks = sorted({stack for _, read in self.readings for stack in read}, key=lambda stack: -last.get(stack, (0, 0))[0])
		for at, stack in enumerate(stacks):
			new = {name for name, _ in stack if name not in offsets}
			if at >= self.stacks_max or len(frames) // 8 + len(stack) > self.frames_max or \
			   len(names) + sum(map(len, new)) + len(new) + 8 > self.names_max:
				left = [have + more for have, more in zip(left, last.get(stack, (0, 0)))]
				continue
			for name in new:
				offsets[name] = len(names)
				names += name.replace(b"\0", b"?") + b"\0"
			each = [read.get(stack, (0, 0)) for _, read in self.readings]
			sizes = [size for size, _ in each] + [0] * (READINGS - len(each))
			packed += struct.pack("=8QII", *sizes, each[0][1], each[-1][1], len(frames) // 8, len(stack))
			for name, line in stack:
				frames += struct.pack("=II", offsets[name], line)
		return packed, frames, bytes(names) + bytes(-len(names) % 8), left

	def write(self):
		packed, frames, names, left = self.content() if self.outcome == "DONE" and self.readings else (b"", b"", b"", [0, 0])
		times = [ns for ns, _ in self.readings] + [0] * (READINGS - len(self.readings))
		content = bytes(packed) + bytes(frames) + names
		head = struct.pack("=QIIIIIIQIIIIII6Q8Q", self.magic, self.version, HEAD_BYTES, 72, len(packed) // 72, len(frames) // 8, len(names), 0,
		                   self.outcomes[self.outcome], self.cuts[self.cut], self.own, self.depth, len(self.readings), 0, *times,
		                   max(0, self.ended - self.began), self.stopped, self.longest, self.blocks, self.tables, *left, checksum(content))
		with open(3, "wb") as file:
			file.write(head + struct.pack("=Q", checksum(head)) + content)


HEAD_BYTES = struct.calcsize("=QIIIIIIQIIIIII6Q9Q")


def checksum(content):
	"""core/stats_layout.h"""
	total = 0xcbf29ce484222325
	for (word,) in struct.iter_unpack("=Q", content):
		total = (total ^ word) * 0x100000001b3 & 0xffffffffffffffff
	return total


# ---- the course of a look ----

def ended_early(seconds):
	"""Waits so long. Returns whether mtctl wants the end."""
	return bool(select.select([0], [], [], max(0, seconds))[0])


def try_to(process, look, body):
	"""Returns the lines, nothing where the main thread is busy: the look goes on without them."""
	try:
		lines = process.run(body, CHECK_S * 5)
	except Late:
		return {}
	look.note(lines)
	return lines


def follow(process, look, span_s, tables_max):
	"""Takes all readings but the last: of a program's own tracing the first is at once. Returns why the look ends before its time."""
	began, steps = time.monotonic(), READINGS - look.own
	for at in range(1 - look.own, steps + 1):
		while time.monotonic() < began + span_s * at / steps:
			if ended_early(min(CHECK_S, began + span_s * at / steps - time.monotonic())):
				return "REQUEST"
			if not look.own and number(try_to(process, look, CHECK), "B") > tables_max:
				return "BLOCKS"
		if at < steps:
			look.add(try_to(process, look, READ.format(tables_max=tables_max, own=look.own)))
		if look.outcome != "DONE":
			break
	return "NONE"


def begin(process, look, ms, depth):
	try:
		lines = process.run(START.format(end=time.monotonic() + ms / 1000 + 2 * END_S, depth=depth), START_S)
	except Late as late:
		return "START_BLOCKED" if late.args[0] else "START_LATE"
	word, own, depth = lines["O"][0].split()
	look.own, look.depth, look.began = int(own), int(depth), time.monotonic_ns()
	look.note(lines)
	return word


def finish(process, look, tables_max):
	"""The last reading, and the end of tracing, in one script."""
	look.ended = time.monotonic_ns()
	if look.outcome != "DONE":
		process.run(STOP, END_S)
		return
	lines = process.run(READ.format(tables_max=tables_max * 2, own=look.own) + STOP, END_S)
	look.note(lines)
	look.add(lines)


def look_at_lines(process, ms, depth, blocks, *texts):
	look, is_late = Look(*texts), False
	look.outcome = begin(process, look, int(ms), int(depth))
	if look.outcome == "BUSY":
		raise Failed("busy", "another look at its Python lines runs; it ends by itself")
	if look.outcome == "DONE":
		tables_max = (OWN_BLOCKS_MAX if look.own else int(blocks)) * BLOCK_BYTES
		say(f"begun {look.own}")
		try:
			look.cut = follow(process, look, int(ms) / 1000, tables_max)
			finish(process, look, tables_max)
		except Late as late:
			look.outcome, is_late = "END_BLOCKED" if late.args[0] else "END_LATE", True
		except Failed:
			look.outcome = "ENDED"
	look.write()
	if is_late:
		say("done")
		stop(process)
	return "done"


def stop(process):
	"""mtctl does not wait for this: its user has the result. A collection in the process ends tracing too (mtctl_expire)."""
	for _ in range(60):
		try:
			return process.run(STOP, END_S)
		except Late:
			continue
		except Failed:
			break
	return None


def act(process, what, *words):
	try:
		if what == "lines":
			return look_at_lines(process, *words)
		lines = process.run(COLLECT, START_S)
		return "collected %d %d" % (number(lines, "G"), number(lines, "T"))
	except Late as late:
		return "failed late its main thread %s for %d s, and a script runs only between two bytecodes of it" % (
			"has waited in a system call" if late.args[0] else "has run C code", START_S)
	except Failed as failed:
		return "failed %s %s" % failed.args
	except (KeyError, ValueError, IndexError):
		return "failed refused its result is not valid"


def main():
	signal.signal(signal.SIGINT, signal.SIG_IGN)
	process = Process(int(sys.argv[1]), int(sys.argv[2]))
	try:
		said = act(process, *sys.argv[3:])
	finally:
		process.close()
	say(said)


main()
