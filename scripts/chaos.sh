#!/usr/bin/env bash
# Breaks a cluster on this machine on purpose while recorded clients work with it,
# checks every answer, and writes a report to one HTML page and a JSON file.
#
#   scripts/chaos.sh                                    # every scenario, about seven minutes
#   scripts/chaos.sh -scenario list
#   scripts/chaos.sh -scenario 'leader killed,leader deaf' -seed 7
#   scripts/chaos.sh -random 10m -seed 42               # the seed repeats the plan
#   scripts/chaos.sh --short                            # what CI runs
#   scripts/chaos.sh --long 2                           # hours of random plans, one seed after the other
#
# Reports go to the directory in CHAOS_OUT, by default chaos-reports. Data and logs of
# a failed run are kept, and their place is printed.
set -euo pipefail
cd "$(dirname "$0")/.."

out="${CHAOS_OUT:-chaos-reports}"
# shellcheck source=scripts/built.sh
source scripts/built.sh chaos
chaos() { "$dir/chaos" -binary "${CHAOS_BINARY:-$dir/commons}" -dir "$dir/run" -out "$out" "$@"; }

case "${1:-}" in
  --short)
    shift
    chaos -seed 1 -random 40s "$@"
    chaos -seed 2 -scenario 'leader isolated,everything killed' "$@"
    ;;
  --long)
    until="$((SECONDS + ${2:?say how many hours} * 3600))"
    shift 2
    for ((seed = 1; SECONDS < until; seed++)); do
      chaos -seed "$seed" -random 5m "$@"
      rm -rf "$dir/run"
    done
    ;;
  *)
    chaos "$@"
    ;;
esac
