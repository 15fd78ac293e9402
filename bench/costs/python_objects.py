#!/usr/bin/python3
"""What small Python objects cost under each allocator: instructions, CPU time, page faults, and memory after a rest.

  bench/costs/python_objects.py [--build DIR] [--python PATH] [--runs N] [--instructions] [--only NAME;...] [--programs NAME,...]
                                [--peer NAME=FILE] [--json FILE]

bench/costs/measure.py says what is measured. RSS is read 12 s after the work has ended. Ratios are against glibc with Python's own
allocator.
"""
import subprocess

import measure

REST_S = 12
PROGRAMS = {
	# makes and drops 1.6 million dicts; 1 in 1000 lives on
	"dicts": "for _ in range(4):\n\trows = [{'x': i, 'y': str(i)} for i in range(400000)]; kept = rows[::1000]; rows = None\n",
	# the same in 7 MB
	"few dicts": "for _ in range(40):\n\trows = [{'x': i, 'y': str(i)} for i in range(20000)]; kept = rows[::1000]; rows = None\n",
	"json": (
		"import json\n"
		"text = json.dumps([{'id': i, 'name': 'n%d' % i, 'tags': ['a%d' % (i % 97), 'b%d' % i]} for i in range(100000)])\n"
		"kept = []\n"
		"for _ in range(3):\n\trows = json.loads(text); kept.append(rows[::500]); rows = None\n"),
	"syntax trees": (
		"import ast, glob, os\n"
		"kept = []\n"
		"for path in sorted(glob.glob(os.path.dirname(ast.__file__) + '/*.py'))[:60]:\n"
		"\ttree = ast.parse(open(path, encoding='utf8', errors='replace').read()); kept.append(tree.body[:1]); tree = None\n"),
}
REST = (
	"import sys\n"
	"if len(sys.argv) > 1:\n"
	"\timport time; time.sleep(float(sys.argv[1]))\n"
	"\tprint(next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmRSS')))\n")


def candidates(options):
	found = measure.peers(options.peer)
	found.update({f"{name}, malloc": {**variables, "PYTHONMALLOC": "malloc"} for name, variables in found.items()})
	for value in "auto", "malloc", "off":
		found[f"shim, {value}"] = {"LD_PRELOAD": measure.shim(options.build), "MT_PYTHON_MALLOC": value}
	return found


def rss_at_rest(command, variables):
	done = subprocess.run([*command, str(REST_S)], env=measure.environment(variables), capture_output=True, text=True, check=True)
	return int(done.stdout.split()[-1]) / 1024


def main():
	parser = measure.parser_of(__doc__)
	parser.add_argument("--python", default="/usr/bin/python3")
	options = parser.parse_args()
	measure.compare(options, candidates(options), {
		name: ([options.python, "-c", program + REST], {"memory": rss_at_rest}) for name, program in PROGRAMS.items()})


if __name__ == "__main__":
	main()
