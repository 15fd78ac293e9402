"""A web service whose cache has a bound: new pages push out the oldest ones."""
import collections

from patient import goes_on, ready

LIMIT = 15_000
cache = collections.OrderedDict()


def render(key):
	cache[key] = f"<html>{key}</html>" * 150
	if len(cache) > LIMIT:
		cache.popitem(last=False)


now = 0
while now < LIMIT:
	now += 1
	render(now)
ready()
while goes_on(0.05):
	for _ in range(200):
		now += 1
		render(now)
