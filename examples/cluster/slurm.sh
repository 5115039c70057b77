#!/bin/sh
#SBATCH --job-name=rota --nodes=4 --exclusive --gpus-per-node=8 --ntasks-per-node=1 --time=12:00:00
# Rota inside an allocation of Slurm: its jobs share these nodes until the allocation ends. The home is on a file system that all nodes see.
set -eu
home=${ROTA_HOME:-$HOME/rota}
export RAY_memory_monitor_refresh_ms=0 RAY_worker_niceness=0 RAY_worker_oom_score_adjustment=0
export RAY_kill_child_processes_on_worker_exit=false
RAY_AUTH_TOKEN=$(python -c 'import secrets; print(secrets.token_hex(32))')
export RAY_AUTH_TOKEN RAY_AUTH_MODE=token

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address=$(srun --nodes=1 --ntasks=1 --nodelist="$head" hostname --ip-address | cut -d' ' -f1)
srun --overlap --nodes=1 --ntasks=1 --nodelist="$head" \
    ray start --head --node-ip-address="$address" --port=6379 --num-gpus=0 --include-dashboard=false --block &
sleep 15
# On every node, the head's too: a second Ray node there has its GPUs.
srun --overlap ray start --address="$address:6379" --num-gpus="$SLURM_GPUS_ON_NODE" --block &
sleep 30
srun --overlap --nodes=1 --ntasks=1 --nodelist="$head" rota up --ray "$address:6379" --home "$home" --node-dir "${TMPDIR:-/tmp}/rota"
