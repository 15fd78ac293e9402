"""What `make bench-proof` runs: the rows of README's table and of docs/benchmarks.md, small enough that each candidate does its work in one
to three seconds, under the peers of today. More minutes bring more peers, rows and rounds; a round is each row under each candidate.
"""
import contextlib
import dataclasses
import pathlib

from lib import candidates
from lib.entries import ALLOCATOR, PYTHON, REAL, TRAINING, Entry

SHORT, ALWAYS = "short", "always"
TITLES = {TRAINING: "training and services in Python", PYTHON: "pyperformance", ALLOCATOR: "allocator stress", REAL: "real programs",
	SHORT: "short programs", ALWAYS: "huge pages `always`"}
THP = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
# Loops of about a second each.
PYPERFORMANCE = {"deltablue": 300, "float": 14, "go": 9, "json_loads": 3000, "json_dumps": 45, "deepcopy": 280, "regex_compile": 6,
	"xml_etree": 3, "pyflate": 2, "raytrace": 5, "telco": 200}


@dataclasses.dataclass(frozen=True)
class Budget:
	candidates: tuple
	rows: tuple = ()     # labels; all rows without
	least_runs: int = 3  # made even where the minutes do not suffice
	most_runs: int = 9


FEW = ("glibc", "glibc-again", "jemalloc", "jemalloc-tuned", "tcmalloc", "mimalloc-testing", "glibc-testing", "shim")
SOME = (*FEW[:4], "jemalloc-testing", "tcmalloc", "tcmalloc-testing", "mimalloc", "mimalloc-testing", "glibc-testing", "shim")
ALL = (*FEW[:4], "jemalloc-testing", "jemalloc-testing-tuned", "tcmalloc", "tcmalloc-tuned", "tcmalloc-testing", "mimalloc",
	"mimalloc-testing", "mimalloc-testing-tuned", "glibc-testing", "shim", "shim-testing")
SHORTEST = ("fl_rounds", "dataloader", "server", "py-float", "py-json_loads", "py-deepcopy", "py-xml_etree", "simple", "mstress", "handover",
	"larson", "xmalloc", "threads_short", "survivors", "redis-benchmark", "redis-libc", "pgbench", "sqlite", "web-sinatra", "web-uvicorn", "celery", "starts", "grep",
	"always-small", "always-python", "always-redis")
BUDGETS = {20: Budget(FEW, SHORTEST), 40: Budget(SOME, (*SHORTEST, "churn", "steps", *(f"py-{name}" for name in PYPERFORMANCE), "perl", "cc1")),
	90: Budget(ALL, least_runs=5)}


def rows():
	half = ["--scale", "0.5"]
	yield Entry("fl_rounds", TRAINING, "federated rounds in PyTorch, 4 client threads", ["--rounds", "4", "--wait", "1"], is_python=True)
	yield Entry("dataloader", TRAINING, "PyTorch DataLoader with 4 worker processes", is_python=True, is_tree=True)
	yield Entry("server", TRAINING, "a model served over HTTP, bursts of requests", ["--bursts", "1"], is_python=True)
	yield Entry("churn", TRAINING, "JSON in, pandas frames, JSON out", is_python=True)
	yield Entry("steps", TRAINING, "1 GB in 4 MB blocks, written and freed twice a second", ["--period", "0.5", "--steps", "4"])
	for name, loops in PYPERFORMANCE.items():
		yield Entry("pyperf_program", PYTHON, f"pyperformance: {name}", [name, "--loops", str(loops)], label=f"py-{name}", is_python=True)
	yield Entry("simple", ALLOCATOR, "glibc-simple: one thread, 25 to 1600 blocks of one size", ["--pairs", "600000"])
	yield Entry("mstress", ALLOCATOR, "mstress: threads that die while their objects live", ["--generations", "60", "--table", "262144"])
	yield Entry("mstress", ALLOCATOR, "mi-stress: 4 threads hand blocks over by a table of 1000", ["--generations", "12", "--rounds", "200000",
		"--table", "1000"], label="handover")
	yield Entry("larson", ALLOCATOR, "larson: server threads that hand live objects on", ["--set", "100000", "--generations", "5",
		"--replacements", "150000"])
	yield Entry("xmalloc", ALLOCATOR, "xmalloc: one thread allocates, another frees", ["--batches", "6000", "--queue", "600", "--lag", "600"])
	yield Entry("threads_short", ALLOCATOR, "many short threads, 64 at a time", ["--threads", "800", "--at-once", "64", "--blocks", "1000",
		"--together", "1"])
	yield Entry("small_pairs", ALLOCATOR, "a window of small blocks, 1 in 128 lives on", ["--threads", "1", "--pairs", "20000000",
		"--keep-every", "128"], label="pairs-1-thread")
	yield Entry("pipeline", ALLOCATOR, "C++: producers and consumers of strings, vectors and maps", ["--messages", "60000", "--history", "10000"])
	yield Entry("malloc_large", ALLOCATOR, "20 live buffers of 5 to 25 MiB, replaced at random", ["--times", "300"])
	yield Entry("survivors", ALLOCATOR, "scattered survivors: 1 million small blocks, 1 in 16 stays", ["--blocks", "1000000"])
	yield Entry("real_redis_benchmark", REAL, "redis-benchmark: its own tests", label="redis-benchmark", hands_on=True)
	yield Entry("real_redis", REAL, "redis, filled, thinned out, refilled", ["--libc", *half], label="redis-libc", hands_on=True)
	yield Entry("real_pgbench", REAL, "pgbench: 4 clients, all processes of the server", label="pgbench", is_tree=True, hands_on=True)
	yield Entry("real_postgres", REAL, "one backend of PostgreSQL: sorts, joins, 600 tables", half, label="postgres", hands_on=True)
	yield Entry("real_sqlite", REAL, "sqlite3: a database in memory", half, label="sqlite", hands_on=True)
	yield Entry("real_web", REAL, "Puma (Ruby): JSON in bursts, 16 threads", ["--server", "puma", "--scale", "0.3"], label="web-puma", hands_on=True)
	yield Entry("real_web", REAL, "Sinatra on Puma (Ruby), 16 threads", ["--server", "sinatra", "--scale", "0.3", "--bursts", "3"], label="web-sinatra",
		hands_on=True)
	yield Entry("real_web", REAL, "uvicorn, FastAPI and pydantic", ["--server", "uvicorn", "--scale", "0.05", "--bursts", "2"], label="web-uvicorn",
		hands_on=True)
	yield Entry("real_celery", REAL, "a Celery worker of 4 processes", ["--scale", "0.3"], label="celery", is_tree=True, hands_on=True)
	yield Entry("real_cc1", REAL, "gcc's cc1 on one large file", half, label="cc1", hands_on=True)
	yield Entry("real_perl", REAL, "perl: hashes and strings", half, label="perl", hands_on=True)
	yield Entry("real_starts", SHORT, "500 short processes from a shell", label="starts", hands_on=True)
	yield Entry("real_grep", SHORT, "grep over the headers, 40 times", label="grep", hands_on=True)
	yield Entry("huge_survivors", ALWAYS, "small blocks, some stay", label="always-small", huge_pages=ALWAYS)
	yield Entry("pyheavy", ALWAYS, "Python's own objects", label="always-python", is_python=True, huge_pages=ALWAYS)
	yield Entry("real_redis", ALWAYS, "redis, filled, thinned out, refilled", ["--libc", "--scale", "0.4"], label="always-redis", hands_on=True,
		huge_pages=ALWAYS)


def rows_of(minutes):
	wanted = BUDGETS[minutes].rows
	return [row for row in rows() if not wanted or row.label in wanted]


def candidates_of(minutes):
	return [candidates.parse(name) for name in BUDGETS[minutes].candidates]


class HugePages:
	"""The machine's setting of huge pages: what a row asks for while it works, and in the end what it was. Needs root."""
	def __init__(self, path=THP):
		self.path = path
		try:
			self.before = next(word.strip("[]") for word in path.read_text(encoding="ascii").split() if word.startswith("["))
		except (OSError, StopIteration):
			self.before = ""
		self.now = self.before

	def become(self, setting):
		"""An empty setting is what the machine had."""
		wanted = setting or self.before
		if wanted != self.now:
			self.path.write_text(wanted, encoding="ascii")
			self.now = wanted

	@contextlib.contextmanager
	def restored(self):
		try:
			yield self
		finally:
			self.become("")
