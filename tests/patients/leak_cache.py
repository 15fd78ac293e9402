"""A web service with a dictionary as its cache, and a key that never comes twice: 3 MB/s."""
from patient import goes_on, ready

cache = {}


def render(user, now):
	key = (user, now)
	if key not in cache:
		cache[key] = f"<html>{user} at {now}</html>" * 100
	return cache[key]


ready()
now = 0
while goes_on(0.05):
	for user in range(50):
		now += 1
		render(user, now)
