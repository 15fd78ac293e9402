"""mallinfo, mallinfo2, malloc_info and malloc_stats: a program that looks for leaks finds them there, as without the library."""
import re
import xml.etree.ElementTree as xml

import pytest

WAYS = [{}, {"MIN_MB": 0}, {"ALLOCATOR": "system"}]
# What each leak is, in small blocks and in large ones.
LEAKS = {"nothing": (0, 0, 0), "one": (2000, 0, 0), "small": (100_000, 0, 0), "large": (0, 15 << 20, 3), "more": (5_000_000, 0, 0),
         "thread": (100_000, 0, 0), "child": (100_000, 0, 0)}


def told(run, program, settings):
	done = run([program], settings)
	assert done.returncode == 0, done.stderr
	lines, _, text = done.stdout.partition("<malloc")
	return [line.split() for line in lines.splitlines()[1:]], "<malloc" + text, done.stderr


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_leak_shows_in_mallinfo(run, env, compile_c, way):
	seen, _, _ = told(run, compile_c("leaks_told.c"), env(**way))

	assert [line[0] for line in seen] == ["nothing", "one", "small", "large", "more", "one", "thread", "child"], seen
	for name, *figures in seen:
		small, large, count = map(int, figures)
		if way.get("ALLOCATOR") == "system" and name == "large":
			continue  # glibc's own threshold decides
		wanted = LEAKS[name]
		spare = 30_000 if name == "thread" else 0  # what libc itself wants for a thread
		if name == "large" and not way:
			small = max(0, small)  # the process wakes up: libc's headers no longer count
		assert wanted[0] <= small <= wanted[0] * 1.3 + spare and wanted[1] <= large <= wanted[1] * 1.1 and count == wanted[2], seen


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_malloc_info_writes_what_glibc_writes(run, env, bare, compile_c, way):
	program = compile_c("leaks_told.c")
	_, expected, _ = told(run, program, bare)
	_, text, errors = told(run, program, env(**way))
	root = xml.fromstring(text)

	def shape(element):
		return [(at.tag, at.get("type")) for at in element if at.tag != "heap"]
	assert (root.tag, root.get("version")) == ("malloc", "1")
	assert shape(root) == shape(xml.fromstring(expected))
	current = int(root.find("system[@type='current']").get("size"))
	mapped = int(root.find("total[@type='mmap']").get("size"))
	free = int(root.find("total[@type='rest']").get("size"))
	assert current + mapped > 20_000_000 and free < current + mapped
	in_use = [int(number) for number in re.findall(r"in use bytes *= *(\d+)", errors)]
	assert len(in_use) >= 2 and in_use[-1] > 20_000_000, errors


PSUTIL = r"""
import ctypes
class mallinfo2(ctypes.Structure):
	_fields_ = [(name, ctypes.c_size_t) for name in
	            "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]
libc = ctypes.CDLL("libc.so.6")
libc.mallinfo2.restype = mallinfo2
libc.malloc.restype = ctypes.c_void_p
def look():
	info = libc.mallinfo2()
	return info.uordblks, info.hblkhd
look()
first = look(); nothing = look()
libc.malloc(64 << 10); small = look()
libc.malloc(10 << 20); large = look()
print(nothing == first, small[0] - nothing[0], large[1] - small[1])
"""


def test_psutil_sees_what_leaks(run, env):
	"""Its heap_info() finds mallinfo2 by libc's handle. Python's own small objects do not count, as without the library."""
	done = run(["/usr/bin/python3", "-c", PSUTIL], env())

	assert done.returncode == 0, done.stderr
	is_still, small, large = done.stdout.split()
	assert is_still == "True" and 64 << 10 <= int(small) <= 72 << 10 and 10 << 20 <= int(large) <= 11 << 20


def test_malloc_stats_is_no_cancellation_point(run, env, compile_c):
	"""glibc's tst-malloc-stats-cancellation: a thread with a pending cancel lost its statistics."""
	got = run([compile_c("stats_cancelled.c", "-pthread")], env(ALLOCATOR="jemalloc"))

	assert got.returncode == 0 and got.stderr.count("max mmap bytes") == 50
