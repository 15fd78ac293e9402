#!/bin/sh
# ENTRYPOINT of a container: becomes the program, under the library where the loader takes it, else without. Needs no Python.
#   /mtshim/entrypoint.sh PROGRAM [ARGUMENT...]
# The library lies beside it, one for each architecture: x86_64/libmtshim.so, aarch64/libmtshim.so.
[ $# -gt 0 ] || { echo "mtshim: no program: an ENTRYPOINT resets the CMD of the base image; repeat it" >&2; exit 2; }
folder=$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "$0")")" && pwd)
library=$folder/$(uname -m)/libmtshim.so

# Only the loader knows whether a library fits its libc. What it does not take, it names on stderr in each process; a damaged file
# kills the trial.
said=$({ MT_ENABLE=0 LD_PRELOAD=$library sh -c :; } 2>&1) && fits=yes || fits=no
case $said in *"cannot be preloaded"*) fits=no ;; esac
if [ -r "$library" ] && [ "$fits" = yes ]; then
	case ":${LD_PRELOAD-}:" in
	*":$library:"*) ;;
	*) export LD_PRELOAD="$library${LD_PRELOAD:+:$LD_PRELOAD}" ;;
	esac
else
	echo "mtshim: the loader does not take $library: $1 runs without it" >&2
fi
exec "$@"
