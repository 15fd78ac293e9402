"""Which machine and which versions a result was measured on."""
import glob
import os
import platform
import subprocess

from lib import peers

def first_line(path, begins=""):
	try:
		with open(path, encoding="utf-8", errors="replace") as lines:
			return next((line.strip() for line in lines if line.startswith(begins)), "")
	except OSError:
		return ""


def output_of(command):
	try:
		return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20).stdout.strip()
	except (OSError, subprocess.TimeoutExpired):
		return ""


# Allocators, what builds, what measures, and what is measured: the distribution's packages. Patterns where releases differ:
# libtcmalloc-minimal4t64, libmimalloc3.
PACKAGES = ("libc6", "libjemalloc2", "libjemalloc-dev", "libtcmalloc-minimal4*", "libmimalloc[0-9]*", "gcc", "g++", "python3",
	"python3-torch", "python3-numpy", "python3-pandas", "python3-psutil", "python3-matplotlib", "hyperfine", "valgrind", "redis-server",
	"redis-tools", "sqlite3", "libsqlite3-0", "perl", "dash")


def package_versions():
	"""Of those that are installed. The compiler proper lies in a package that has its version in its name."""
	shown = "${db:Status-Status} ${Package} ${Version}\n"
	lines = output_of(["dpkg-query", "-W", "-f", shown, *PACKAGES, "cpp-??"]).splitlines()
	return dict(line.split(" ")[1:3] for line in lines if line.startswith("installed "))


def describe():
	distribution = first_line("/etc/os-release", "PRETTY_NAME=").partition("=")[2].strip('"')
	cpu = first_line("/proc/cpuinfo", "model name").partition(":")[2].strip()
	return {
		"cpu": cpu or platform.machine(),
		"cores": os.cpu_count(),
		"memory_mib": int((first_line("/proc/meminfo", "MemTotal").split() or [0, 0])[1]) // 1024,
		"kernel": platform.release(),
		"distribution": distribution,
		"thp": first_line("/sys/kernel/mm/transparent_hugepage/enabled"),
		"governor": first_line((glob.glob("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or [""])[0]),
		"load": " ".join(first_line("/proc/loadavg").split()[:3]),
		"commit": output_of(["git", "-C", os.path.dirname(__file__), "describe", "--always", "--dirty"]),
		"versions": package_versions(),
		"versions_of_testing": peers.versions("testing"),
	}
