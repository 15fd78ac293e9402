"""What /proc says about a process and about the tree below it. Memory in MiB, CPU time in seconds.

A process that has ended raises ProcessLookupError or FileNotFoundError (both are OSError); in a tree it is left out.
"""
import os
import re

PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def read(path):
	with open(path, "rb") as file:
		return file.read().decode("utf-8", "replace")


def rss_mib(pid):
	return int(read(f"/proc/{pid}/statm").split()[1]) * PAGE_MIB


def peak_mib(pid):
	"""The kernel's high-water mark; 0 for a process that has ended and was not waited for."""
	found = re.search(r"^VmHWM:\s+(\d+)", read(f"/proc/{pid}/status"), re.MULTILINE)
	return int(found[1]) / 1024 if found else 0.0


def pss_mib(pid):
	"""What is shared counts by its share: the sum over a tree is what the tree really costs."""
	found = re.search(r"^Pss:\s+(\d+)", read(f"/proc/{pid}/smaps_rollup"), re.MULTILINE)
	return int(found[1]) / 1024 if found else 0.0


def cost(pid):
	"""(CPU seconds, minor faults) of a process and of its children that it has waited for."""
	fields = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
	minor, of_children = int(fields[7]), int(fields[8])
	return sum(map(int, fields[11:15])) * TICK_S, minor + of_children


def children(pid):
	found = []
	for task in os.listdir(f"/proc/{pid}/task"):
		try:
			found += map(int, read(f"/proc/{pid}/task/{task}/children").split())
		except OSError:
			continue
	return found


def tree(pid):
	"""The process and all its descendants."""
	found, waiting = [], [pid]
	while waiting:
		one = waiting.pop()
		found.append(one)
		try:
			waiting += children(one)
		except OSError:
			continue
	return found


def sum_over(figure, pids):
	"""The sum of a figure over the processes that are there."""
	total = 0.0
	for pid in pids:
		try:
			total += figure(pid)
		except OSError:
			continue
	return total


def available_mib():
	return int(re.search(r"^MemAvailable:\s+(\d+)", read("/proc/meminfo"), re.MULTILINE)[1]) / 1024
