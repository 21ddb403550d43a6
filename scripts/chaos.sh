#!/usr/bin/env bash
# Breaks a cluster on this machine on purpose while recorded clients work with it, and
# checks every answer.
#
#   scripts/chaos.sh                                    # every scenario, about ten minutes
#   scripts/chaos.sh -scenario list
#   scripts/chaos.sh -scenario 'leader killed,leader deaf' -seed 7
#   scripts/chaos.sh -random 10m -seed 42               # the seed repeats the plan
#   scripts/chaos.sh -kills 100                         # the distribution of write gaps, ten minutes
#   scripts/chaos.sh -voters 5 -scenario 'two of five killed,three of five killed'
#   scripts/chaos.sh --short                            # the first half of what CI runs
#   scripts/chaos.sh --long 120                         # all of it, then random plans, for 120 minutes
#
# As root it runs in namespaces of its own (mounts, network, processes): whatever it
# mounts, makes and starts ends with it, even if it is killed. Without, what needs root
# (disks) is left out, and counted. scripts/compose.sh runs the scenarios with containers.
#
# --long goes on after a failed run. Data and logs of a failed run are kept, and their place is
# printed.
# Exit code 77: nothing was run, because this machine cannot.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ "$*" == '-scenario list' ]]; then # needs no cluster
  echo "chaos: building the list" >&2
  exec go run ./scripts/chaos "$@"
fi
# shellcheck source=scripts/built.sh
source scripts/built.sh chaos
apart=()
if ((EUID == 0)) && unshare --mount --net --pid --fork --mount-proc --kill-child true 2>/dev/null; then
  # shellcheck disable=SC2016 # the inner shell expands it
  apart=(unshare --mount --net --pid --fork --mount-proc --kill-child bash -c 'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"' chaos)
fi
chaos() { "${apart[@]}" "$dir/chaos" -binary "${CHAOS_BINARY:-$dir/commons}" -dir "$dir/run" "$@"; }

case "${1:-}" in
  --short)
    shift
    chaos -least 10 -seed 1 -random 40s "$@"
    chaos -least 10 -seed 2 -scenario 'leader isolated,everything killed' "$@"
    ;;
  --long)
    end=$((SECONDS + 60 * ${2:?say for how many minutes}))
    shift 2
    code=0
    chaos "$@" || code=$?
    chaos -voters 5 -scenario 'two of five killed,three of five killed' "$@" || code=$?
    chaos -kills 100 "$@" || code=$?
    for ((seed = 1; SECONDS < end; seed++)); do
      chaos -seed "$seed" -random 3m -voters "$((3 + 2 * (seed % 2)))" "$@" || code=$?
      if ((code == 0)); then rm -rf "$dir/run"; fi
    done
    exit "$code"
    ;;
  *) chaos "$@" ;;
esac
