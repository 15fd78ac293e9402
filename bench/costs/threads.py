#!/usr/bin/python3
"""What threads cost under each allocator: short ones, blocks that another thread frees, blocks that outlive their thread.

  bench/costs/threads.py [--build DIR] [--runs N] [--instructions] [--only NAME;...] [--programs NAME,...] [--peer NAME=FILE] [--json FILE]

bench/costs/measure.py says what is measured; the programs are those of bench/workloads. Instructions are of one thread after another
alone: with more of them callgrind counts how they wait, too.
"""
import measure

PROGRAMS = {
	# (program and arguments, whether instructions say something)
	"one after another": (["threads_short", "--at-once", "1", "--threads", "2000"], True),
	"short": (["threads_short", "--threads", "20000"], False),
	"short, blocks outlive": (["threads_short", "--threads", "20000", "--keep", "50"], False),
	"mstress": (["mstress", "--generations", "200"], False),
	"larson": (["larson"], False),
	"xmalloc": (["xmalloc"], False),
}


def main():
	options = measure.parser_of(__doc__).parse_args()
	found = {**measure.peers(options.peer), "shim": {"LD_PRELOAD": measure.shim(options.build)}}
	chosen = measure.choose(options.only, found, ";")
	results = {}
	for name, (command, counts) in measure.choose(options.programs, PROGRAMS, ",").items():
		command = [f"{options.build}/bench/{command[0]}", *command[1:]]
		results[name] = measure.measure(command, chosen, options, instructions=counts)
		measure.show(name, results[name])
	measure.write(results, options)


if __name__ == "__main__":
	main()
