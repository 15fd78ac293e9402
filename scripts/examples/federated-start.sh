#!/bin/sh
# Starts the server or a client of a federated-learning framework under the shim, in the place of a start script that preloads
# jemalloc: what is in LD_PRELOAD and MALLOC_CONF already stays.
#   federated-start.sh server|client|swarm program...
#   JEMALLOC=1      preload the system's jemalloc as well, behind the shim, which then lets it serve malloc (default: the shim's own);
#                   a path is that very library. Without one the program starts all the same, with a word on stderr.
#   MTCTL=PROGRAM   mtctl, where it is not in PATH
# Settings are MT_* variables, and win over the preset: MT_GC_ROUNDS=2 federated-start.sh server python3 server.py
set -eu

# The same places that the frameworks' own scripts try; ldconfig knows the others.
find_jemalloc() {
	for file in /usr/lib/*-linux-gnu/libjemalloc.so.2 /usr/lib64/libjemalloc.so.2 /usr/local/lib/libjemalloc.so.2 \
		/opt/conda/lib/libjemalloc.so.2 "${CONDA_PREFIX:-/nowhere}/lib/libjemalloc.so.2"; do
		[ ! -r "$file" ] || { echo "$file"; return; }
	done
	PATH="$PATH:/usr/sbin:/sbin" ldconfig -p 2>/dev/null | sed -n 's/.*libjemalloc\.so\.2 .*=> //p' | head -n 1
}

role=${1:-}
case $role in
server|client|swarm) shift ;;
*) echo "usage: federated-start.sh server|client|swarm program..." >&2; exit 2 ;;
esac

case ${JEMALLOC:-0} in
0|no|off) library= ;;
1|yes|on)
	library=$(find_jemalloc)
	[ -n "$library" ] || echo "federated-start.sh: no jemalloc here; the shim's own serves" >&2 ;;
*)
	library=$JEMALLOC
	[ -r "$library" ] || { echo "federated-start.sh: no $library" >&2; exit 2; } ;;
esac
if [ -n "$library" ]; then
	# mtctl run puts the shim before all of it.
	export LD_PRELOAD="$library${LD_PRELOAD:+:$LD_PRELOAD}"
	# What these frameworks recommend for a jemalloc on its own; one's own MALLOC_CONF stays.
	export MALLOC_CONF="${MALLOC_CONF:-dirty_decay_ms:5000,muzzy_decay_ms:5000}"
fi
# Frameworks seldom mark the end of a round where the shim could see it: it finds it by the memory that falls.
export MT_PRESET="${MT_PRESET:-$role}" MT_ROUND="${MT_ROUND:-auto}"
exec "${MTCTL:-mtctl}" run -- "$@"
