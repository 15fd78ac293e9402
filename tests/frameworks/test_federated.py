"""The simulators of NVFLARE and Flower, whose server and clients are processes of their own."""
import collections
import json
import re
import shutil

import pytest

SERVER, CLIENTS, ROUNDS = 1, 2, 4


@pytest.mark.parametrize("workflow", ["scatter_and_gather", "fedavg"])
def test_nvflares_simulator_counts_each_round_on_server_and_clients(workflow, commands, run, bare, env, programs, tmp_path):
	"""The start command is NVFLARE's own. The environment has the library; the job has the component, and the site allows its class."""
	def simulate(name, environment):
		workspace = tmp_path / name
		(workspace / "local").mkdir(parents=True)
		shutil.copy(programs / "nvflare_resources.json", workspace / "local/resources.json")
		done = run([commands("nvflare") / "nvflare", "simulator", "-w", workspace, "-n", CLIENTS, "-t", CLIENTS, programs / f"nvflare_{workflow}"],
		           environment, timeout=300, cwd=tmp_path)
		assert done.returncode == 0, done.stdout + done.stderr
		return (workspace / "server/simulate_job/models/server.npy").read_bytes(), done.stdout
	logs = tmp_path / "logs"
	logs.mkdir()

	plain, said = simulate("plain", bare)
	under, _ = simulate("under", env(MIN_MB=0, GC_ROUNDS=1, PROFILE=1, LOG=logs / "%p"))

	assert f"site-{CLIENTS}" in said and under == plain
	seen = collections.Counter()
	for log in logs.iterdir():
		counted = [int(number) for number in re.findall(r"reason=round .*?round=(\d+)", log.read_text())]
		if counted:
			assert counted == list(range(1, len(counted) + 1))
			seen[len(counted)] += 1
	assert seen == {ROUNDS: SERVER + CLIENTS}


def test_flowers_simulation_counts_each_round_on_server_and_clients(commands, run, bare, env, programs, tmp_path):
	def simulate(name, environment):
		out = tmp_path / name
		done = run([commands("flower") / "python", programs / "flower_simulation.py"],
		           dict(environment, OUT=str(out), FLWR_TELEMETRY_ENABLED="0", FLWR_HOME=str(tmp_path / "home")), timeout=300)
		assert done.returncode == 0, done.stdout + done.stderr
		return [json.loads(line) for line in out.read_text().splitlines()]

	plain = simulate("plain", bare)
	under = simulate("under", env())

	assert [line[2] for line in plain] == [0] * 7
	assert [line[2:] for line in under if line[0] == "server"] == [[3, 3.0]]
	assert [line[3] for line in plain if line[0] == "server"] == [3.0]
	before = collections.defaultdict(list)
	for _, pid, count in (line for line in under if line[0] == "client"):
		before[pid].append(count)
	# Each process counts the messages that it has replied to.
	assert sum(map(len, before.values())) == 6
	assert all(counts == list(range(len(counts))) for counts in before.values())
