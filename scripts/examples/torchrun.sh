#!/bin/sh
# Distributed training with torchrun, each rank under the shim.
#   RANKS=4 torchrun.sh train.py --epochs 3
# Options for torchrun itself go into TORCHRUN_OPTIONS (--tee 3: each line of output has its rank before it).
# The launcher itself stays without it. From WORLD_SIZE 2 on the shim empties no GPU cache by itself, since the other ranks would
# have to wait; `mtctl trim PID` and rounds that the program marks do.
set -eu
here=$(dirname "$(realpath "$0")")

# shellcheck disable=SC2086 # options are words
exec "${PYTHON:-python3}" -m torch.distributed.run --standalone --nproc_per_node="${RANKS:-4}" ${TORCHRUN_OPTIONS:-} \
	--no_python "$here/ranked.sh" "${PYTHON:-python3}" "$@"
