"""Which machine and which versions a result was measured on."""
import glob
import os
import platform
import subprocess


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


def package_versions():
	names = ["libc6", "libjemalloc2", "libjemalloc-dev", "libtcmalloc-minimal4", "libmimalloc2.0", "python3",
		"python3-torch", "gcc", "valgrind"]
	lines = output_of(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *names]).splitlines()
	return dict(line.split(" ", 1) for line in lines if " " in line and line.split(" ", 1)[1])


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
		"commit": output_of(["git", "describe", "--always", "--dirty"]),
		"versions": package_versions(),
	}
