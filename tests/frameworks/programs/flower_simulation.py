"""Three rounds of two clients. Appends what each process has counted to the file of the variable OUT."""
import json
import os

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

import mtshim
from mtshim.integrations.flower import count_rounds, round_mod

client = ClientApp(mods=[round_mod])
server = ServerApp()


@client.train()
def train(message, context):
	arrays = [a + 1 for a in message.content["arrays"].to_numpy_ndarrays()]
	with open(os.environ["OUT"], "a") as out:
		print(json.dumps(["client", os.getpid(), mtshim.stats().rounds_count]), file=out)
	return Message(content=RecordDict({"arrays": ArrayRecord(arrays), "metrics": MetricRecord({"num-examples": 1})}), reply_to=message)


@client.evaluate()
def evaluate(message, context):
	return Message(content=RecordDict({"metrics": MetricRecord({"num-examples": 1, "x": 1.0})}), reply_to=message)


@server.main()
def main(grid, context):
	strategy = count_rounds(FedAvg(min_available_nodes=2, min_train_nodes=2, min_evaluate_nodes=2))
	result = strategy.start(grid=grid, initial_arrays=ArrayRecord([np.zeros(1000)]), num_rounds=3)
	with open(os.environ["OUT"], "a") as out:
		print(json.dumps(["server", os.getpid(), mtshim.stats().rounds_count, float(result.arrays.to_numpy_ndarrays()[0][0])]), file=out)


run_simulation(server_app=server, client_app=client, num_supernodes=2, backend_config={"client_resources": {"num_cpus": 1}})
