"""What a workload reads about itself from /proc. No threads, no dependencies: importing it moves no memory."""


def status_mib(field):
	"""A memory field of /proc/self/status (VmRSS, VmHWM, RssAnon), in MiB."""
	with open("/proc/self/status", encoding="ascii") as status:
		for line in status:
			if line.startswith(field + ":"):
				return int(line.split()[1]) / 1024
	raise LookupError(field)


def rss_mib():
	return status_mib("VmRSS")


def peak_mib():
	return status_mib("VmHWM")


def minor_faults():
	with open("/proc/self/stat", encoding="ascii") as stat:
		return int(stat.read().rsplit(")", 1)[1].split()[7])
