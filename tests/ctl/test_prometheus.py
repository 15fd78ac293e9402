"""A real Prometheus that scrapes `mtctl serve`: four ranks started by mpirun and a program with a GPU; and what lies in
scripts/ for Prometheus and Grafana."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request

import pytest

import leftovers
from metrics_helpers import families
from mtctl_helpers import MB, PYTHON, ROOT

pytestmark = [pytest.mark.xdist_group("prometheus"), pytest.mark.slow]
RULES = ROOT / "scripts" / "prometheus" / "mtshim.rules.yml"
DASHBOARD = ROOT / "scripts" / "grafana" / "mtshim-dashboard.json"
# One node, no network: shared memory alone, and loopback for mpirun's own talk.
MPIRUN = ["mpirun", "-n", "4", "--oversubscribe"]
# Open MPI 4 looks for other machines without these; version 5 no longer knows them.
MPIRUN_4 = ["--mca", "plm", "isolated", "--mca", "oob_tcp_if_include", "lo", "--mca", "btl", "self,vader"]
OTHERS = {"up", "node_textfile_mtime_seconds"}  # what the rules use and mtctl does not make
HELD_MB = 24
PATIENCE_S = 60  # for a machine that is busy with other things


def wait_for(predicate, timeout, what):
	end = time.monotonic() + timeout
	while True:
		answer = predicate()
		if answer:
			return answer
		assert time.monotonic() < end, f"not within {timeout} s: {what}"
		time.sleep(0.1)


@contextlib.contextmanager
def running(words, env, **options):
	"""A process that is asked to end, and then made to, with all its session."""
	process = subprocess.Popen([str(word) for word in words], env=env, start_new_session=True, text=True,
	                           **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **options})
	try:
		yield process
	finally:
		process.send_signal(signal.SIGTERM)
		with contextlib.suppress(subprocess.TimeoutExpired):
			process.wait(timeout=10)
		with contextlib.suppress(ProcessLookupError):
			os.killpg(process.pid, signal.SIGKILL)
		process.wait()
		for pipe in (process.stdin, process.stdout):
			if pipe:
				pipe.close()


def free_port():
	with socket.socket() as one:
		one.bind(("127.0.0.1", 0))
		return one.getsockname()[1]


class Prometheus:
	def __init__(self, port):
		self.url = f"http://127.0.0.1:{port}"

	def get(self, path, **words):
		try:
			with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(words)}", timeout=10) as answer:
				return json.load(answer)["data"]
		except urllib.error.HTTPError as error:
			if error.code == 503:  # it is not ready yet, or has no time for an answer
				return None
			pytest.fail(f"{path} {words}: {error.read().decode()}")
		except urllib.error.URLError:
			return None

	def query(self, expression):
		"""Pairs of labels and value."""
		got = self.get("query", query=expression)
		return [(one["metric"], float(one["value"][1])) for one in got["result"]] if got else []

	def wait(self, expression, count=1):
		"""query, as soon as it has so many answers: on a busy machine a scrape may be late, and its series gone meanwhile."""
		def enough():
			found = self.query(expression)
			return found if len(found) >= count else None
		return wait_for(enough, PATIENCE_S, expression)


class Monitored:
	"""What is watched, and who watches. comm is the name of the ranks: root sees processes of other tests, too."""


def start_prometheus(stack, folder, target, bare):
	config = folder / "prometheus.yml"
	config.write_text(f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{RULES}]
scrape_configs:
  - job_name: mtshim
    authorization: {{credentials_file: {folder / "token"}}}
    static_configs: [{{targets: ["{target}"]}}]
""")
	port = free_port()
	log = stack.enter_context(open(folder / "log", "w"))
	stack.enter_context(running(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
	                             f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=1h"],
	                            bare, stdout=log, stderr=log))
	return Prometheus(port)


def start_gpu(stack, env, compile_c):
	gpu = stack.enter_context(running([compile_c("cuda_puppet.c")], dict(
		env, LD_PRELOAD=str(ROOT / "build" / "libmtshim.so"), LD_LIBRARY_PATH=str(ROOT / "build" / "tests" / "fakecuda"),
		FAKECUDA_MEMORY_MB="1000", RANK="7", WORLD_SIZE="8"), bufsize=1))

	def tell(line):
		gpu.stdin.write(line + "\n")
		return gpu.stdout.readline().strip()
	assert int(tell("info")) > 0
	for slot in range(8):
		assert tell(f"alloc {slot} {4 * MB}") == "0"
	for slot in range(2):
		assert tell(f"free {slot}") == "0"
	return gpu.pid


@pytest.fixture(scope="module")
def monitored(bare, shim, mtctl, compile_c):
	here = Monitored()
	folder = pathlib.Path(tempfile.mkdtemp(prefix=leftovers.prefix(), dir="/dev/shm"))
	env = dict(bare, MT_DIR=str(folder / "mt"), MT_RSS_LIMIT_MB="2000", MT_MIN_MB="0")
	if os.geteuid() == 0:
		env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
	here.env, here.mtctl = env, mtctl
	with contextlib.ExitStack() as stack:
		stack.callback(shutil.rmtree, folder, ignore_errors=True)
		serve = stack.enter_context(running([mtctl, "serve", "--listen=127.0.0.1:0", f"--read-token-file={folder / 'token'}"], env))
		here.target = re.match(r"http://([\d.:]+)/", serve.stdout.readline())[1]
		here.prometheus = start_prometheus(stack, folder, here.target, bare)
		here.comm = f"rank{os.getpid()}"
		(folder / here.comm).symlink_to(PYTHON)
		version = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=True).stdout
		mpirun = MPIRUN + (MPIRUN_4 if " 4." in version.splitlines()[0] else [])
		stack.enter_context(running([*mpirun, mtctl, "run", "--", folder / here.comm, ROOT / "tests/ctl/rank_worker.py", HELD_MB],
		                            dict(env, MTSHIM_LIBRARY=str(shim)), stdout=subprocess.DEVNULL))
		here.gpu = start_gpu(stack, env, compile_c)
		for rank in range(4):
			here.prometheus.wait(f'mtshim_heap_live_bytes{{comm="{here.comm}", rank="{rank}"}} > {(rank + 1) * HELD_MB * MB}')
		here.prometheus.wait(f'mtshim_device_allocated_bytes{{pid="{here.gpu}"}} > 0')
		yield here


def used_names(expression):
	"""The metrics of an expression of PromQL: what is no function, label, keyword or text."""
	bare_words = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(by|without|on|ignoring) *\([^)]*\)', " ", expression)
	words = re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*(?! *\()\b", bare_words)
	return {word for word in words if word not in ("by", "and", "or", "unless", "on", "bool", "sum", "max", "rate", "increase", "delta", "time")}


def panels():
	return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def filled(expression):
	for name, word in {"$instance": ".*", "$comm": ".*", "$rank": ".*", "$__rate_interval": "30s"}.items():
		expression = expression.replace(name, word)
	return expression


# ---- with Prometheus ----

def test_all_ranks_of_a_job_come_in_one_query(monitored):
	found = dict((labels["rank"], value) for labels, value in
	             monitored.prometheus.wait(f'mtshim_heap_live_bytes{{comm="{monitored.comm}", rank=~"[0-3]"}}', 4))

	assert sorted(found) == ["0", "1", "2", "3"]
	assert all((rank + 1) * HELD_MB * MB < found[str(rank)] < (rank + 1) * 3 * HELD_MB * MB + 64 * MB for rank in range(4)), found
	monitored.prometheus.wait(f'sum(mtshim_heap_live_bytes{{comm="{monitored.comm}", rank=~"[0-3]"}}) > {10 * HELD_MB * MB}')


def test_what_prometheus_says_is_what_mtctl_says(monitored):
	(labels, _), = monitored.prometheus.wait(f'mtshim_up{{comm="{monitored.comm}", rank="2"}} == 1')

	seen = json.loads(subprocess.run([monitored.mtctl, "stat", labels["pid"], "--json", "--cached"], env=monitored.env, capture_output=True,
	                                 check=True).stdout)

	assert (seen["rank"], seen["rank_source"]) == ("2", "OMPI_COMM_WORLD_RANK")
	stored = monitored.prometheus.wait(f'mtshim_rss_limit_bytes{{pid="{labels["pid"]}"}}')[0][1]
	assert stored == seen["rss_limit_bytes"] == 2000 * MB
	held = f'max_over_time(mtshim_heap_live_bytes{{pid="{labels["pid"]}"}}[1m])'
	monitored.prometheus.wait(f'abs({held} - {seen["heap_live_bytes"]}) < {16 * MB}')


def test_it_is_scraped_as_openmetrics(monitored):
	"""Only there have metrics units."""
	known = monitored.prometheus.get("metadata")

	assert known["mtshim_heap_live_bytes"][0] == {"type": "gauge", "unit": "bytes", "help": "usable bytes that the program holds"}
	assert known["mtshim_cleanups"][0]["type"] == "counter" and known["mtshim_build"][0]["type"] == "info"
	wait_for(lambda: [one["health"] for one in monitored.prometheus.get("targets")["activeTargets"]] == ["up"], PATIENCE_S, "it is up")


def test_a_cleanup_is_counted(monitored):
	expression = f'mtshim_cleanups_total{{pid="{monitored.gpu}", reason="request"}}'
	assert monitored.prometheus.wait(expression)[0][1] == 0

	assert subprocess.run([monitored.mtctl, "trim", str(monitored.gpu)], env=monitored.env, capture_output=True).returncode in (0, 1)

	monitored.prometheus.wait(expression + " == 1")


def test_rules_are_evaluated_without_an_error(monitored):
	def looked():
		groups = monitored.prometheus.get("rules")["groups"]
		rules = [rule for group in groups for rule in group["rules"]]
		return rules if all(rule["health"] != "unknown" for rule in rules) else None
	rules = wait_for(looked, PATIENCE_S, "every rule has been evaluated")

	assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"] == []
	assert monitored.prometheus.wait("instance:mtshim_rss_bytes:sum")[0][0]["instance"] == monitored.target


def test_every_panel_shows_something(monitored):
	"""All that a panel asks for; rates need two scrapes."""
	def silent():
		return {(panel["title"], target["expr"]) for panel in panels() for target in panel["targets"]
		        if not monitored.prometheus.query(filled(target["expr"]))}
	end = time.monotonic() + PATIENCE_S
	while (still := silent()) and time.monotonic() < end:
		time.sleep(0.5)

	assert still == set()


def test_every_metric_that_rules_and_dashboard_use_is_there(monitored):
	text = subprocess.run([monitored.mtctl, "export"], env=monitored.env, capture_output=True, text=True, check=True).stdout
	there = {sample.name for family in families(text).values() for sample in family.samples}
	rules = re.findall(r"^ +(?:- record|expr): (?:>-\n)?((?:.*\n(?: {10}.*\n)*))", RULES.read_text(), re.MULTILINE)
	recorded = set(re.findall(r"- record: (\S+)", RULES.read_text()))
	used = {name for expression in [*rules, *(target["expr"] for panel in panels() for target in panel["targets"])]
	        for name in used_names(filled(expression))}

	assert len(used) > 30 and "mtshim_rss_limit_bytes" in used and "pid:mtshim_pressure:ratio" in used
	assert used - there - recorded - OTHERS == set()


# ---- the files alone ----

def promtool(*words):
	done = subprocess.run(["promtool", *words], cwd=RULES.parent, capture_output=True, text=True, timeout=60)
	return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("words", [["check", "rules", "--lint=all", RULES.name], ["check", "config", "--syntax-only", "prometheus.yml"],
                                   ["test", "rules", "mtshim.rules.test.yml"]])
def test_promtool_is_content(words):
	code, text = promtool(*words)

	assert code == 0, text


def test_every_alert_is_tested_with_what_raises_it():
	alerts = set(re.findall(r"- alert: (\w+)", RULES.read_text()))
	raised = re.findall(r"alertname: (\w+)\n +eval_time: \w+\n +exp_alerts:\n +- ", (RULES.parent / "mtshim.rules.test.yml").read_text())

	assert alerts == set(raised)


def test_the_dashboard_is_what_grafana_imports():
	board = json.loads(DASHBOARD.read_text())

	assert board["uid"] and board["title"] and board["schemaVersion"] >= 36 and "id" not in board and "__inputs" not in board
	assert [one["name"] for one in board["templating"]["list"]] == ["datasource", "instance", "comm", "rank"]
	assert all(one["includeAll"] and one["allValue"] == ".*" for one in board["templating"]["list"][1:])
	ids = [panel["id"] for panel in board["panels"]]
	assert len(ids) == len(set(ids))
	for panel in panels():
		assert panel["title"] and panel["description"] and panel["type"] in ("timeseries", "stat", "table")
		assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"} and panel["fieldConfig"]["defaults"]["unit"]
		assert [target["refId"] for target in panel["targets"]] == list("ABCDEF"[:len(panel["targets"])])
		assert all("$instance" in target["expr"] for target in panel["targets"])


def test_no_panel_lies_on_another():
	taken = set()

	for panel in json.loads(DASHBOARD.read_text())["panels"]:
		at = panel["gridPos"]
		cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
		assert not cells & taken and at["x"] + at["w"] <= 24, panel["title"]
		taken |= cells
