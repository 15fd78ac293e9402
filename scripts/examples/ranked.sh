#!/bin/sh
# Starts a program under the shim as one rank of a job, with a log of its own. For torchrun, mpirun and srun:
#   torchrun --nproc_per_node=4 --no_python ranked.sh python3 train.py
#   mpirun -n 4 ranked.sh python3 train.py
#   srun ranked.sh python3 train.py
# The shim takes the rank from the same variables by itself: mtctl ps, the metrics and the page show it.
#   LOGS=FOLDER     where the logs go (.): mtshim-rank3-PID.log
#   MTCTL=PROGRAM   mtctl, where it is not in PATH
set -eu

rank=${RANK:-${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${SLURM_PROCID:-}}}}
if [ $# = 0 ]; then
	echo "usage: ranked.sh program..." >&2
	exit 2
fi
# %p is the process id: the children of a rank have files of their own.
MT_LOG=${MT_LOG:-${LOGS:-.}/mtshim${rank:+-rank$rank}-%p.log}
export MT_LOG
exec "${MTCTL:-mtctl}" run -- "$@"
