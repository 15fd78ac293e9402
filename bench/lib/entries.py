"""What `make bench` runs side by side: one row for each workload of the suite.

A workload of the suite does its work, prints {"event": "idle", "time": CLOCK_MONOTONIC in s} on a line of its own, does
nothing for `--idle` seconds, and prints its figures as one JSON line, `work_s` (the time of its work, waits left out)
among them. What it holds of memory is watched from outside all the while.

A workload that is `hands_on` runs a real program instead of being one: it gets no candidate's environment, but finds it as
JSON in BENCH_ENVIRONMENT, starts the program with that, and prints {"event": "watch", "pid": N} once it runs.
"""
import dataclasses

# Groups: `training` is what the promises of time and of the integral are about; the others are in the tables as well.
TRAINING, ALLOCATOR, PYTHON, REAL = "training", "allocator", "python", "real"


@dataclasses.dataclass
class Entry:
	name: str                     # of the program in bench/workloads (.py) or build/bench
	group: str
	title: str                    # what it is, for the tables
	arguments: list = dataclasses.field(default_factory=list)
	quick: list | None = None     # arguments of a --quick suite; None: not in it
	label: str = ""               # where one program stands in several rows
	is_python: bool = False       # PYTHONMALLOC, both ways, is measured as well
	is_tree: bool = False         # child processes count: memory is the PSS of them all
	hands_on: bool = False
	by_hand: list | None = None   # arguments with which the program trims by itself (candidate glibc-trim)
	runs: int = 3
	huge_pages: str = ""          # the machine's setting of huge pages while the program works (root); as it is without

	def __post_init__(self):
		self.label = self.label or self.name


ENTRIES = [
	Entry("fl_rounds", TRAINING, "federated rounds in PyTorch, 4 client threads", ["--rounds", "6"], ["--rounds", "2", "--wait", "1"],
		is_python=True, by_hand=["--trim"]),
	Entry("steps", TRAINING, "1 GB in 4 MB blocks, written and freed every second", ["--period", "1", "--steps", "8"],
		["--period", "0.5", "--steps", "4"]),
	Entry("dataloader", TRAINING, "PyTorch DataLoader with 4 worker processes", is_python=True, is_tree=True, by_hand=["--trim"]),
	Entry("server", TRAINING, "a model served over HTTP, bursts of requests", is_python=True, by_hand=["--trim"], quick=["--bursts", "1"]),
	Entry("churn", TRAINING, "JSON in, pandas frames, JSON out", is_python=True, by_hand=["--trim"]),
	Entry("throughput", TRAINING, "bytearrays of 256 B, 4 kB, 64 kB", ["--repeat", "5"], [], is_python=True),
	Entry("fragmentation", PYTHON, "bytearrays of mixed sizes, some held", ["--scale", "5"], is_python=True, by_hand=["--trim"]),
	Entry("pyheavy", PYTHON, "Python's own objects: dicts, lists, strings, classes, JSON, floats", is_python=True),
	Entry("malloc_large", ALLOCATOR, "20 live buffers of 5 to 25 MiB, replaced at random", ["--times", "1000"], ["--times", "300"]),
	Entry("small_pairs", ALLOCATOR, "a window of small blocks, 1 in 128 lives on, 1 thread",
		["--threads", "1", "--pairs", "40000000", "--keep-every", "128"], label="pairs-1-thread"),
	Entry("small_pairs", ALLOCATOR, "a window of small blocks, 1 in 128 lives on, 2 threads",
		["--threads", "2", "--pairs", "20000000", "--keep-every", "128"], label="pairs-2-threads"),
	Entry("larson", ALLOCATOR, "server threads that hand live objects on; 3 of 4 sets dropped",
		["--set", "200000", "--generations", "6", "--replacements", "250000"]),
	Entry("xmalloc", ALLOCATOR, "one thread allocates, another frees, in bulk",
		["--batches", "8000", "--queue", "600", "--lag", "600"]),
	Entry("mstress", ALLOCATOR, "threads that die while their objects live; 1 in 8 stays",
		["--generations", "80", "--table", "262144"]),
	Entry("threads_short", ALLOCATOR, "many short threads, 64 at a time",
		["--threads", "1600", "--at-once", "64", "--blocks", "1000", "--together", "1"]),
	Entry("survivors", ALLOCATOR, "2 million small blocks, 1 in 16 stays", quick=["--blocks", "500000"]),
	Entry("pipeline", ALLOCATOR, "C++: producers and consumers of strings, vectors and maps",
		["--messages", "240000", "--history", "30000"], ["--messages", "60000", "--history", "10000"]),
	Entry("compute", ALLOCATOR, "no malloc at all: the control, it must not move", ["--rounds", "8000"]),
	Entry("real_redis", REAL, "redis, filled, thinned out, refilled (as linked: with jemalloc)", hands_on=True),
	Entry("real_redis", REAL, "redis, likewise, over libc's malloc", ["--libc"], label="redis-libc", hands_on=True),
	Entry("real_postgres", REAL, "one backend of PostgreSQL: sorts, joins, aggregates, 600 tables", hands_on=True),
	Entry("real_sqlite", REAL, "sqlite3: an in-memory database of its own", hands_on=True),
	Entry("real_web", REAL, "Puma (Ruby): JSON in bursts, 16 threads", ["--server", "puma"], label="web-puma", hands_on=True),
	Entry("real_web", REAL, "gunicorn: likewise, 2 workers", ["--server", "gunicorn"], label="web-gunicorn", is_tree=True, hands_on=True),
	Entry("real_celery", REAL, "a Celery worker of 4 processes: JSON in bursts of tasks", label="celery", is_tree=True, hands_on=True),
	Entry("real_web", REAL, "PHP's own server: likewise", ["--server", "php"], label="web-php", hands_on=True),
	Entry("real_web", REAL, "node: likewise", ["--server", "node"], label="web-node", hands_on=True),
	Entry("real_cc1", REAL, "gcc's cc1 on one large file", hands_on=True),
	Entry("real_python", REAL, "python3 compiles its own library", is_python=True, hands_on=True),
	Entry("real_perl", REAL, "perl: hashes and strings", hands_on=True),
	Entry("real_starts", REAL, "500 short processes from a shell", hands_on=True, quick=[]),
]


def by_label(label):
	for entry in ENTRIES:
		if label in (entry.label, entry.name):
			return entry
	raise SystemExit(f"no workload {label} in the suite; there are: {', '.join(entry.label for entry in ENTRIES)}")
