"""The fragmentation workload of the benchmarks, on and on: blocks of 100 bytes to 100 kB at random, some held, the held ones cut
down now and then. It goes up and down, and it is steady."""
import random

from patient import goes_on, ready

SIZES = (100, 1_000, 10_000, 100_000)
chance = random.Random(1)
held = []


def churn():
	made = [bytearray(chance.choice(SIZES)) for _ in range(250)]
	held.extend(chance.sample(made, 50))
	if len(held) >= 500:
		held[:] = chance.sample(held, 250)


for _ in range(50):
	churn()
ready()
while goes_on(0.05):
	churn()
