#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=4
#SBATCH --mem=64G
#SBATCH --time=12:00:00
#SBATCH --output=train-%j.out
# Many use this to be told that time runs out. A program without a handler for it then makes a cleanup and goes on; take another
# signal for one of the two (MT_SIGNAL=USR2) where that is not what is wanted.
#SBATCH --signal=USR1@120
#
# Each task under the shim, which goes by the job's own limit (--mem, as a control group). sbatch slurm.sh; then, on a node:
#   srun --jobid=JOB --overlap mtctl ps
set -eu

# sbatch runs a copy of this file: the wrapper is looked for where the job was submitted, then where it is installed.
wrapper=${SLURM_SUBMIT_DIR:-.}/ranked.sh
[ -x "$wrapper" ] || wrapper=/usr/share/doc/mtshim/examples/ranked.sh

export LOGS=${LOGS:-$PWD/logs-${SLURM_JOB_ID:-0}}
mkdir -p "$LOGS"
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR MASTER_PORT=29500 WORLD_SIZE="$SLURM_NTASKS"

srun --kill-on-bad-exit=1 "$wrapper" python3 train.py "$@"
