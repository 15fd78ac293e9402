#!/usr/bin/python3
"""perl: a program of hashes, strings, regular expressions and sorts (real_perl.pl), which then drops most of it."""
import os
import subprocess

import realprog


def main():
	options = realprog.parse_options(__doc__)
	realprog.require("perl")
	script = os.path.join(realprog.own_folder(), "real_perl.pl")
	program = realprog.Program(["perl", script, str(options.scale)], stdout=subprocess.PIPE,
		env={**realprog.candidate_variables(), "PERL_HASH_SEED": "0"})
	work_s = program.wait_for(program.process.stdout, "done")
	realprog.lie_idle(options.idle)
	realprog.print_figures(work_s=work_s, **program.finish())


if __name__ == "__main__":
	main()
