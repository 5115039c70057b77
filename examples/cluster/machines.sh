#!/bin/sh
# Rota on machines of your own. Run this on the head with `head`, on each node with GPUs with `node HEAD NAME GPUS`, and then once, on
# any of them, with `up`. /shared is a file system that all of them see.
set -eu
export RAY_memory_monitor_refresh_ms=0 RAY_worker_niceness=0 RAY_worker_oom_score_adjustment=0
export RAY_kill_child_processes_on_worker_exit=false
export RAY_health_check_period_ms=1000 RAY_health_check_timeout_ms=2000 RAY_health_check_failure_threshold=5
# Made once: python -c "import secrets; print(secrets.token_hex(32))" > /shared/ray-token; chmod 600 /shared/ray-token
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=/shared/ray-token
ports='--node-manager-port=6380 --object-manager-port=6381 --min-worker-port=10002 --max-worker-port=10999'

case ${1:-} in
    head) exec ray start --head --port=6379 --num-gpus=0 --include-dashboard=false $ports --block ;;
    node) exec ray start --address="$2:6379" --labels="rota/node=$3" --num-gpus="$4" $ports --block ;;
    up)   exec rota up --ray auto --home /shared/rota --node-dir /var/tmp/rota ;;
    *)    echo 'usage: machines.sh head | node HEAD NAME GPUS | up' >&2; exit 2 ;;
esac
