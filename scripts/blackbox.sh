#!/usr/bin/env bash
# Runs three real nodes on this machine, checks the program and the examples of the
# documents, then kills, wipes and restarts nodes under load, follows the procedures
# of operators, and checks the promises to clients.
#
#   scripts/blackbox.sh [--race] [-long] [-only 'name of a scenario']
#
# --race builds the nodes with the race detector. -only leaves the faults out:
# scripts/chaos.sh -scenario runs one of them. Data and logs of a failed run are kept,
# and their place is printed.
set -euo pipefail
cd "$(dirname "$0")/.."

race=()
if [ "${1:-}" = --race ]; then
  race=(-race)
  shift
fi
# shellcheck source=scripts/built.sh
source scripts/built.sh blackbox "${race[@]}"
"$dir/blackbox" -binary "$dir/commons" -dir "$dir/run" "$@"
if [[ " $* " != *" -only "* ]]; then
  CHAOS_BINARY="$dir/commons" CHAOS_OUT="$dir/reports" \
    scripts/chaos.sh -least 30 -scenario 'faults in turn,what operators do,writers just below their limits'
fi
