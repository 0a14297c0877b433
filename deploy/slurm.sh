#!/usr/bin/env bash
# A search on SLURM: a Ray cluster for as long as the job lasts, one Ray node on each of its nodes, the search on the first.
#
#   sbatch --job-name=first deploy/slurm.sh multidigits --strategies sus,ius,io --gpus-per-trial 0.5
#
# The search has the job's name. The same command again goes on with it where the time limit, a lost node or scancel
# left it. STORAGE is a folder that all nodes see; MLFLOW_TRACKING_URI the team's server (with MLFLOW_TRACKING_USERNAME and
# MLFLOW_TRACKING_PASSWORD if it asks for them); PATH must have the environment in which tune-mtl is installed.
#SBATCH --job-name=search
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=2
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@120
set -euo pipefail

STORAGE=${STORAGE:-/shared/searches}
TRACKING=${MLFLOW_TRACKING_URI:-http://mlflow.internal:5000}
NAME=$SLURM_JOB_NAME
PORT=${RAY_PORT:-6379}

# A token of this job alone, in the environment and in no file: others on the network cannot use the cluster.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN
RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]} # the node that this script runs on
common=(--num-cpus="$SLURM_CPUS_PER_TASK" --disable-usage-stats --block) # GPUs: those that SLURM lets each node see

trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
srun --overlap --nodes=1 --ntasks=1 --nodelist="$head" \
  ray start --head --port="$PORT" --include-dashboard=false "${common[@]}" &
until (: <"/dev/tcp/$head/$PORT") 2>/dev/null; do
  kill -0 $! # ends this script if the head has ended
  sleep 1
done
for node in "${nodes[@]:1}"; do
  srun --overlap --nodes=1 --ntasks=1 --nodelist="$node" ray start --address="$head:$PORT" "${common[@]}" &
done
timeout 300 python - "$head:$PORT" "${#nodes[@]}" <<'WAIT' # until all nodes have joined
import sys, time, ray
ray.init(sys.argv[1], logging_level="ERROR")
while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[2]):
    time.sleep(1)
WAIT

place=(--address auto --storage "$STORAGE" --tracking-uri "$TRACKING")
tune-mtl doctor "${place[@]}"
if [ -e "$STORAGE/$NAME/snapshot.zip" ]; then
  command=(tune-mtl resume "$NAME" "${place[@]}")
else
  command=(tune-mtl search --name "$NAME" --cpus-per-trial 4 "${place[@]}" "$@")
fi
# SIGTERM, two minutes before the time limit or by scancel --batch, is for the driver: it stops gently, within 30 s.
"${command[@]}" &
driver=$!
trap 'kill -TERM "$driver"' TERM
code=0
wait "$driver" || code=$?
while kill -0 "$driver" 2>/dev/null; do # the signal ended the wait, not the driver
  code=0
  wait "$driver" || code=$?
done
exit "$code"
