"""Runs one program under one candidate, and reads the JSON line that it prints last."""
import json
import os
import subprocess

# What a shell may carry and a measurement must not: each candidate brings its own.
SWEPT = ("LD_PRELOAD", "MALLOC_", "MT_", "PYTHONMALLOC", "GLIBC_TUNABLES", "NVFLARE_", "MIMALLOC_", "TCMALLOC_")


def clean_environment():
	kept = {name: value for name, value in os.environ.items() if not name.startswith(SWEPT)}
	kept["PYTHONHASHSEED"] = "0"
	kept["PYTHONDONTWRITEBYTECODE"] = "1"
	return kept


def environment_of(candidate):
	return {**clean_environment(), **candidate.variables()}


def last_json(text):
	for line in reversed(text.splitlines()):
		if line.startswith("{"):
			return json.loads(line)
	raise ValueError("the workload printed no figures")


def run_program(command, candidate, timeout_s=900):
	"""The figures of one run. A workload that fails is an error, never a missing row."""
	done = subprocess.run(command, env=environment_of(candidate), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
		text=True, timeout=timeout_s, check=False)
	if done.returncode != 0:
		raise RuntimeError(f"{candidate.name}: {' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
	figures = last_json(done.stdout)
	if done.stderr.strip():
		figures["stderr"] = done.stderr.strip()[:2000]
	return figures
