#!/usr/bin/python3
"""python3 reads its own library, as a linter or an indexer does: each file parsed and compiled.

It keeps the trees of the last files and the code of all; then it drops everything, and waits for its input to end.
"""
import subprocess
import sys

import realprog

SCRIPT = """
import ast, collections, glob, os, sys
folder = os.path.dirname(os.__file__)
names = sorted(glob.glob(folder + "/*.py") + glob.glob(folder + "/*/*.py"))
names = names[:max(3, int(len(names) * 0.65 * float(sys.argv[1])))]
trees, codes = collections.deque(maxlen=400), {}
for name in names:
	with open(name, "rb") as file:
		source = file.read()
	try:
		tree = ast.parse(source, name)
		codes[name] = compile(tree, name, "exec")
	except (SyntaxError, ValueError):
		continue
	trees.append(tree)
del tree, source, codes
trees.clear()
print("done", flush=True)
sys.stdin.read()
"""


def main():
	options = realprog.parse_options(__doc__)
	program = realprog.Program([sys.executable, "-W", "ignore", "-c", SCRIPT, str(options.scale)], stdout=subprocess.PIPE)
	work_s = program.wait_for(program.process.stdout, "done")
	realprog.lie_idle(options.idle)
	realprog.print_figures(work_s=work_s, **program.finish())


if __name__ == "__main__":
	main()
