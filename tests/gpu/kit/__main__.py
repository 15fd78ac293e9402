"""The checks and benchmarks for a machine with a GPU. Nothing is installed, built or fetched; Python's standard library is enough.

  run truth OUTDIR [NAME...]     what the driver does, and whether the shim keeps its promises, in all ways
  run clients OUTDIR [NAME...]   PyTorch, CuPy, JAX, Numba, Triton and others with and without the shim
  run figures OUTDIR [PART...]   what it costs and saves: bench/gpu/run

  NAME    only what begins with one of these; PART: pairs giveback rescue resnet transformer mixes
  --seconds N     ends by then with what there is (520; never more than 9 minutes)
  --build DIR     libmtshim.so, mtctl and tests/gpu (default: beside this)
  --fake DIR      the folder of a stand-in libcuda.so.1 (default: found out)
  --python FILE   the Python that has torch and its like (default: the first on PATH that has torch)

Writes OUTDIR/MODE.json after each row and OUTDIR/MODE.txt at the end. The last lines are a table and `N passed, N failed, N skipped`.
Exits 0 when something has passed and nothing has failed or was cut, 77 without a GPU, 1 otherwise.
"""
import argparse
import os
import pathlib
import signal
import sys
import threading

import clients
import figures
import gpu_machine
import truth
from result import Result

MODES = {"truth": truth.run, "clients": clients.run, "figures": figures.run}
MOST_S, GRACE_S = 525, 8


def parse_options():
	parser = argparse.ArgumentParser(prog="run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("mode", choices=MODES)
	parser.add_argument("outdir")
	parser.add_argument("names", nargs="*", metavar="NAME")
	parser.add_argument("--seconds", type=float, default=520)
	parser.add_argument("--build", default=str(gpu_machine.ROOT / "build"))
	parser.add_argument("--fake", metavar="DIR")
	parser.add_argument("--python")
	return parser.parse_args()


def end_in_time(machine, result):
	"""For what the time limits of the commands do not end: the results that are there are kept."""
	def end(*_):
		print("run: ended before it was done", flush=True)
		machine.end()
		result.finish()
		os._exit(1)
	timer = threading.Timer(max(1.0, machine.left() + GRACE_S), end)
	timer.daemon = True
	timer.start()
	signal.signal(signal.SIGTERM, end)
	return timer


def main():
	options = parse_options()
	machine = gpu_machine.Machine(options.build, options.fake or gpu_machine.stand_in(), options.python, min(options.seconds, MOST_S))
	try:
		if machine.missing():
			sys.exit(f"run: not there: {' '.join(machine.missing())}: `make gpu-kit` on a machine with a compiler makes them")
		pathlib.Path(options.outdir).mkdir(parents=True, exist_ok=True)
		result = Result(options.outdir, options.mode, machine.about())
		timer = end_in_time(machine, result)
		if not result.about["has_gpu"]:
			result.add({"name": "gpu", "way": "bare", "outcome": "skipped", "seconds": 0.0, "text": result.about["device"]})
			result.finish()
			return gpu_machine.SKIPPED
		names = tuple(options.names)
		said = MODES[options.mode](machine, result, lambda name: not names or name.startswith(names))
		timer.cancel()
		return result.finish(said)
	finally:
		machine.end()


if __name__ == "__main__":
	sys.exit(main())
