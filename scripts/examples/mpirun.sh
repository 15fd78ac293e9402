#!/bin/sh
# An MPI program, each rank under the shim. Whatever the program prints has its rank before it.
#   RANKS=4 mpirun.sh python3 train.py
# Options for Open MPI itself, hosts among them, go into MPIRUN_OPTIONS.
set -eu
here=$(dirname "$(realpath "$0")")

# shellcheck disable=SC2086 # options are words
exec mpirun -n "${RANKS:-4}" --tag-output -x LOGS -x MTCTL ${MPIRUN_OPTIONS:-} "$here/ranked.sh" "$@"
