#!/usr/bin/env bash
# Breaks a cluster on this machine on purpose while recorded clients work with it,
# checks every answer, and writes a report as JSON.
#
#   scripts/chaos.sh                                    # every scenario, about seven minutes
#   scripts/chaos.sh -scenario list
#   scripts/chaos.sh -scenario 'leader killed,leader deaf' -seed 7
#   scripts/chaos.sh -random 10m -seed 42               # the seed repeats the plan
#   scripts/chaos.sh -network namespaces -random 10m    # networks that lose packets, gossip as well
#   scripts/chaos.sh -kills 100                         # the distribution of write gaps, ten minutes
#   scripts/chaos.sh -set heartbeat=300ms -scenario 'leader killed'
#   scripts/chaos.sh -voters 5 -scenario 'two of five killed,three of five killed'
#   scripts/chaos.sh -network containers                # of docker-compose.cluster.yml, with the balancer
#   scripts/chaos.sh --short                            # what CI runs
#   scripts/chaos.sh --long 2h                          # all of it, then random plans with one seed after the other
#
# As root it runs in namespaces of its own (mounts, network, processes): whatever it
# mounts, makes and starts ends with it, even if it is killed. Without, what needs root
# (disks, networks that lose packets) is left out, and counted. Containers are in the
# engine's namespaces; it takes away what it made there.
#
# Reports go to the directory in CHAOS_OUT, by default chaos-reports; --long adds a list
# of all runs, index.json, continues after a failed run, and keeps only the ends of its
# logs. Otherwise data and logs of a failed run are kept, and their place is printed.
# Exit code 77: nothing was run, because this machine cannot.
set -euo pipefail
cd "$(dirname "$0")/.."

out="${CHAOS_OUT:-chaos-reports}"
# shellcheck source=scripts/built.sh
source scripts/built.sh chaos
apart=()
if ((EUID == 0)) && unshare --mount --net --pid --fork --mount-proc --kill-child true 2>/dev/null; then
  # shellcheck disable=SC2016 # the inner shell expands it
  apart=(unshare --mount --net --pid --fork --mount-proc --kill-child bash -c 'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"' chaos)
fi
plain=("$dir/chaos" -binary "${CHAOS_BINARY:-$dir/commons}" -dir "$dir/run" -out "$out")
chaos() { "${apart[@]}" "${plain[@]}" "$@"; }

images() { # for containers, out of what is built here
  local variables
  if docker info >/dev/null 2>&1 && variables="$(scripts/compose-offline.sh)"; then
    eval "$variables"
  fi
}

case "${1:-} $*" in
  --short*)
    shift
    chaos -seed 1 -random 40s "$@"
    chaos -seed 2 -scenario 'leader isolated,everything killed' "$@"
    ;;
  --long*)
    length="${2:?say how long, such as 90m}"
    shift 2
    images
    "${plain[@]}" -long "$length" "$@" -- "${apart[@]}"
    ;;
  *-network[\ =]containers*)
    images
    "${plain[@]}" "$@"
    ;;
  *) chaos "$@" ;;
esac
