"""A service that has switched the collector off and can afford it: nothing that it drops is in a cycle."""
import gc
import json

from patient import goes_on, ready

gc.disable()
index = {i: f"row {i}" for i in range(200_000)}
ready()
while goes_on(0.05):
	for _ in range(20):
		json.loads(json.dumps([{"id": i, "text": index[i]} for i in range(200)]))
