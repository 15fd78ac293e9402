"""Prints the results of 12 tasks, of which one fails: without the worker's figures on stdout, with them on stderr."""
import json
import sys

from celery_tasks import work

sent = [work.delay(number) for number in range(12)]
results = [result.get(timeout=90, propagate=False) for result in sent]
print([repr(result) if isinstance(result, Exception) else result[0] for result in results])
print(json.dumps([result[1:] for result in results if not isinstance(result, Exception)]), file=sys.stderr)
