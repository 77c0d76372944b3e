#!/bin/bash
# deploy/mpirun.sh HOSTFILE: Open MPI 4 starts one rank for each slot; a line of the file is "node1 slots=8". Change the
# flags of train. All hosts need train, the data and the model at the same paths, and NCCL (docs/many.md).
# If a rank is lost, run it again: it resumes. Or repeat it: until deploy/mpirun.sh HOSTFILE; [ $? -lt 33 ]; do :; done
hosts=${1:?the file of hosts is missing}
out=out
resume=()
[ ! -e "$out/run.json" ] || resume=(--resume)
first=$(awk '$1 !~ /^#/ && NF { print $1; exit }' "$hosts") # where mpirun puts rank 0
# Without --bind-to, mpirun binds ranks to cores, of which train gives each its share already. After Ctrl-C or SIGTERM,
# mpirun waits for sigkill_timeout, sends SIGTERM, waits that long again for the checkpoint, and kills.
exec mpirun --hostfile "$hosts" --bind-to none --mca odls_base_sigkill_timeout 30 -x PATH -x MASTER_ADDR="$first" \
  train --fused --device cuda --model meta-llama/Llama-3.2-1B-Instruct --out "$out" "${resume[@]}"
