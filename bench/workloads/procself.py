"""What a workload reads about itself, or about another process, from /proc. No threads, no dependencies: importing it moves no memory."""
import resource


def status_mib(field, pid="self"):
	"""A memory field of /proc/PID/status (VmRSS, VmHWM, RssAnon), in MiB."""
	with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
		for line in status:
			if line.startswith(field + ":"):
				return int(line.split()[1]) / 1024
	raise LookupError(field)


def rss_mib():
	return status_mib("VmRSS")


def peak_mib():
	return status_mib("VmHWM")


def cpu_s():
	"""User and system time of this process so far, in seconds."""
	usage = resource.getrusage(resource.RUSAGE_SELF)
	return usage.ru_utime + usage.ru_stime


def minor_faults():
	with open("/proc/self/stat", encoding="ascii") as stat:
		return int(stat.read().rsplit(")", 1)[1].split()[7])
