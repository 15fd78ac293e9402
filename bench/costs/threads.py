#!/usr/bin/python3
"""What threads cost under each allocator: short ones, blocks that another thread frees, blocks that outlive their thread.

  bench/costs/threads.py [--build DIR] [--runs N] [--instructions] [--only NAME;...] [--programs NAME,...] [--peer NAME=FILE] [--json FILE]

bench/costs/measure.py says what is measured; the programs are those of bench/workloads. Instructions are of one thread after another
alone: with more of them callgrind counts how they wait, too.
"""
import measure

UNCOUNTED = {"instructions": False}
PROGRAMS = {
	"one after another": (["threads_short", "--at-once", "1", "--threads", "2000"], {}),
	"short": (["threads_short", "--threads", "20000"], UNCOUNTED),
	"blocks outlive": (["threads_short", "--threads", "20000", "--keep", "50"], UNCOUNTED),
	"mstress": (["mstress", "--generations", "200"], UNCOUNTED),
	"larson": (["larson"], UNCOUNTED),
	"xmalloc": (["xmalloc"], UNCOUNTED),
}


def main():
	options = measure.parser_of(__doc__).parse_args()
	measure.compare(options, measure.peers_and_shim(options), {
		name: ([f"{options.build}/bench/{command[0]}", *command[1:]], arguments) for name, (command, arguments) in PROGRAMS.items()})


if __name__ == "__main__":
	main()
