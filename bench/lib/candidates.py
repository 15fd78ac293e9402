"""Who is measured: a candidate is a name and the environment that a program gets. Nothing else may differ.

`preload` is a library that must exist, else the candidate is skipped with a note. `arguments` are options a workload
needs under this candidate, by label: the same work, told how this allocator is asked to trim.
"""
import dataclasses
import glob
import os

from lib import peers

NODECAY = "oversize_threshold:0,dirty_decay_ms:-1,muzzy_decay_ms:-1"


def library(name):
	"""Where the distribution has put a library: libraries lie in /usr/lib/<triplet> or in /usr/lib64."""
	found = sorted(glob.glob(f"/usr/lib/*/{name}") + glob.glob(f"/usr/lib64/{name}"))
	return found[0] if found else name


@dataclasses.dataclass
class Candidate:
	name: str
	preload: str = ""
	environment: dict = dataclasses.field(default_factory=dict)
	arguments: dict = dataclasses.field(default_factory=dict)
	by_hand: bool = False   # the program itself is changed: it collects and trims each round
	python: bool = False    # differs from another candidate in PYTHONMALLOC alone: only for Python programs
	setting: bool = False   # a peer with another setting of its own: only on the rows of training, to keep the suite short
	libc: str = ""          # a root of bench/peers whose libc it runs on
	source: str = ""        # which document of the peer advises its settings

	def missing(self):
		"""Why it cannot run here; an empty string when it can."""
		if self.libc and not peers.found(self.libc):
			return f"{peers.root(self.libc)} is missing: make bench-peers, as root"
		if not self.preload or os.path.exists(self.preload):
			return ""
		return f"{self.preload} does not exist"

	def variables(self):
		"""What is added to the environment of the program."""
		preload = {"LD_PRELOAD": self.preload} if self.preload else {}
		return {**preload, **self.environment}

	def command(self, words, hands_on=False):
		"""The command that runs `words` on its libc. There env brings the variables, since a library for that libc cannot be loaded into
		what enters it; a driver of a real program brings them itself."""
		if not self.libc:
			return words
		brought = [] if hands_on else ["env", *(f"{name}={value}" for name, value in self.variables().items())]
		return [*peers.entering(self.libc), *brought, *words]

	def outer_variables(self):
		"""What the environment of that command has of its variables."""
		return {} if self.libc else self.variables()

	def recorded(self):
		"""The same for a result file: what lies below the present folder without the way there, which is nobody's business."""
		here = os.getcwd() + os.sep
		return {name: value.removeprefix(here) for name, value in self.variables().items()}


JEMALLOC = library("libjemalloc.so.2")


def asked_by(how):
	"""How the workloads that trim ask this allocator for it: see bench/workloads/trim.h."""
	return {label: ["--how", how] for label in ("stall", "survivors", "growth")}


JEMALLOC_ASKS = asked_by("mallctl")
SHIM_ASKS = {"fragmentation": ["--signal"]}
TESTING = "testing"   # Debian's suite of that name
# "High resource consumption application, prioritizing memory usage", with as many arenas as CPUs.
JEMALLOC_TUNED = {"MALLOC_CONF": f"background_thread:true,tcache_max:4096,dirty_decay_ms:5000,muzzy_decay_ms:5000,narenas:{os.cpu_count()}"}
JEMALLOC_ADVICE = "jemalloc's TUNING.md"
TCMALLOC_ADVICE = "gperftools' tcmalloc.html: reasonable rates are 0 to 10"
MIMALLOC_ADVICE = "mimalloc's readme: 0 can improve memory usage"

BUILT_IN = [
	Candidate("glibc", arguments={"fragmentation": ["--trim"]}),
	Candidate("glibc-again", arguments={"fragmentation": ["--trim"]}),  # must agree with the first: what the noise is
	Candidate("glibc-arena2", "", {"MALLOC_ARENA_MAX": "2"}, {"fragmentation": ["--trim"]}, setting=True),
	Candidate("glibc-trim", arguments={"fl_rounds": ["--trim"]}, by_hand=True),
	Candidate("glibc-malloc", "", {"PYTHONMALLOC": "malloc"}, python=True),
	Candidate("jemalloc", JEMALLOC, arguments=JEMALLOC_ASKS),
	Candidate("jemalloc-decay5s", JEMALLOC, {"MALLOC_CONF": "dirty_decay_ms:5000,muzzy_decay_ms:5000"}, JEMALLOC_ASKS,
		setting=True),
	Candidate("jemalloc-background", JEMALLOC, {"MALLOC_CONF": "background_thread:true"}, JEMALLOC_ASKS),
	Candidate("jemalloc-malloc", JEMALLOC, {"PYTHONMALLOC": "malloc"}, python=True),
	Candidate("jemalloc-nodecay", JEMALLOC, {"MALLOC_CONF": NODECAY}, JEMALLOC_ASKS),
	Candidate("jemalloc-tuned", JEMALLOC, JEMALLOC_TUNED, JEMALLOC_ASKS, source=JEMALLOC_ADVICE),
	Candidate("tcmalloc-tuned", library("libtcmalloc_minimal.so.4"), {"TCMALLOC_RELEASE_RATE": "10"}, asked_by("tcmalloc"),
		source=TCMALLOC_ADVICE),
	Candidate("glibc-testing", libc=TESTING),
	Candidate("jemalloc-testing", peers.library(TESTING, "libjemalloc.so.2"), libc=TESTING),
	Candidate("jemalloc-testing-tuned", peers.library(TESTING, "libjemalloc.so.2"), JEMALLOC_TUNED, libc=TESTING, source=JEMALLOC_ADVICE),
	Candidate("mimalloc-testing", peers.library(TESTING, "libmimalloc.so.3"), libc=TESTING),
	Candidate("mimalloc-testing-tuned", peers.library(TESTING, "libmimalloc.so.3"), {"MIMALLOC_PURGE_DELAY": "0"}, libc=TESTING,
		source=MIMALLOC_ADVICE),
	Candidate("tcmalloc-testing", peers.library(TESTING, "libtcmalloc_minimal.so.4"), libc=TESTING),
	Candidate("shim-testing", libc=TESTING),
	Candidate("tcmalloc", library("libtcmalloc_minimal.so.4"), arguments=asked_by("tcmalloc")),
	Candidate("mimalloc", library("libmimalloc.so.[23]"), arguments=asked_by("mimalloc")),
	Candidate("shim", arguments=SHIM_ASKS),
	Candidate("shim-pymalloc", "", {"PYTHONMALLOC": "pymalloc"}, python=True),
	Candidate("shim-system", "", {"MT_ALLOCATOR": "system"}, SHIM_ASKS),
	Candidate("shim-prof-ready", "", {"MT_PROF": "1"}, SHIM_ASKS),
	Candidate("shim-prof-on", "", {"MT_PROF": "on"}, SHIM_ASKS),
	# Rounds of a soak are pressed together by leaving out most of the waiting, in which the heap would settle.
	Candidate("shim-server", "", {"MT_PRESET": "server", "MT_ROUND": "auto", "MT_SETTLE_MS": "500"}),
	Candidate("shim-nopurge", "", {"MT_BUDGET_PCT": "0"}, SHIM_ASKS),
]


def use_build(build):
	"""Where the shim lies: in this build, unless MTSHIM names another one."""
	shim = os.path.abspath(os.environ.get("MTSHIM") or os.path.join(build, "libmtshim.so"))
	for candidate in BUILT_IN:
		if candidate.name.startswith("shim"):
			candidate.preload = shim


def parse(text):
	"""A candidate as given on the command line: a built-in name, or NAME:VAR=VALUE,VAR=VALUE.

	A NAME that begins with a built-in one and a plus ("shim+fast:MT_IDLE_MS=250") is that one with more variables. A
	comma within a value is written as a semicolon (MALLOC_CONF=a:1;b:2).
	"""
	by_name = {candidate.name: candidate for candidate in BUILT_IN}
	if text in by_name:
		return by_name[text]
	name, colon, rest = text.partition(":")
	base = by_name.get(name.partition("+")[0], Candidate(""))
	if not colon:
		raise SystemExit(f"no candidate {text}; there are: {', '.join(by_name)}; or NAME:VAR=VALUE,...")
	environment = dict(base.environment)
	for pair in filter(None, rest.split(",")):
		variable, equals, value = pair.partition("=")
		if not equals:
			raise SystemExit(f"{text}: {pair} is not VAR=VALUE")
		environment[variable] = value.replace(";", ",")
	preload = environment.pop("LD_PRELOAD", base.preload)
	return Candidate(name, preload, environment, base.arguments)


def split(text):
	"""Splits a list of candidates at commas: NAME,NAME, and NAME:VAR=VALUE,VAR=VALUE keeps its variables."""
	parts = []
	for part in text.split(","):
		if parts and ":" in parts[-1] and "=" in part and ":" not in part.partition("=")[0]:
			parts[-1] += "," + part
		else:
			parts.append(part)
	return parts
