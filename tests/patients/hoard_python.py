"""A service that has parsed one large upload: the records are dropped, and the allocator keeps their pages."""
import json

from patient import goes_on, ready

upload = json.dumps([{"id": i, "name": f"row {i}", "values": [i, i + 1, i + 2]} for i in range(250_000)])
records = json.loads(upload)
count = len(records)
del upload, records
ready()
while goes_on(0.2):
	json.loads('{"health": "ok"}')
