#!/bin/sh
# ENTRYPOINT of a container: becomes the program, under the library where the loader takes it, else without. Needs no Python.
#   /mtshim/entrypoint.sh PROGRAM [ARGUMENT...]
# The library lies beside it, one for each architecture: x86_64/libmtshim.so, aarch64/libmtshim.so.
library=$(cd "$(dirname "$0")" && pwd)/$(uname -m)/libmtshim.so
# Only the loader knows whether a library fits its libc. What it does not take, it names on stderr in each process.
if [ -r "$library" ] && [ -z "$(MT_ENABLE=0 LD_PRELOAD=$library sh -c : 2>&1)" ]; then
	export LD_PRELOAD="$library${LD_PRELOAD:+:$LD_PRELOAD}"
else
	echo "mtshim: the loader does not take $library: $1 runs without it" >&2
fi
exec "$@"
