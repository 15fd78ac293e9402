"""A federated server as it was met in the wild: each round 60 MB of results come, are averaged and dropped, but for the 5 MB that a
list of "last results" keeps of every round (there it was 4.9 GiB a round, for 29 rounds)."""
from patient import goes_on, ready

CLIENTS = 12
model = bytearray(b"m") * (20 << 20)
last_results = []


def one_round():
	results = []
	for client in range(CLIENTS):
		results.append({"client": client, "weights": bytearray(b"w") * (5 << 20)})
		if not goes_on(0.05):
			return False
	last_results.append(results[0]["weights"])
	return goes_on(0.6)


ready()
while one_round():
	pass
