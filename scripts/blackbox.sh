#!/usr/bin/env bash
# Kills, wipes and restarts three real nodes on this machine under load and
# checks what clients were promised.
#
#   scripts/blackbox.sh [--race] [-long] [-only 'name of a scenario']
#
# --race builds the nodes with the race detector. Data and logs of a failed run
# are kept, and their place is printed.
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
