#!/bin/bash
# sbatch deploy/slurm.sh: one rank for each of 8 GPUs of 2 nodes. Change these numbers and the flags of train. The
# nodes need NCCL (docs/many.md), and a file system in common for train, the data, the model and --out.
#SBATCH --job-name=restyle
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
# Five minutes before the end of that time, train saves and ends with exit code 34, and the job waits for its next turn.
#SBATCH --signal=TERM@300
#SBATCH --requeue
#SBATCH --open-mode=append

out=out
resume=()
[ ! -e "$out/run.json" ] || resume=(--resume) # of an earlier turn
srun --kill-on-bad-exit=1 --cpu-bind=none \
  train --fused --device cuda --model meta-llama/Llama-3.2-1B-Instruct --out "$out" "${resume[@]}"
code=$?
# srun returns the highest code: 33 or 34 of train, or that of a rank that was killed. 1 and 2 need attention.
if [ $code -gt 2 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 10 ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
