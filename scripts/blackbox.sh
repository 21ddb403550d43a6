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

build=(go build)
if [ "${1:-}" = --race ]; then
  build+=(-race)
  shift
fi
dir="$(mktemp -d "${TMPDIR:-/tmp}/commons-blackbox.XXXXXX")"
finish() {
  local code=$?
  if ((code == 0)); then
    rm -rf "$dir"
  else
    echo "data and logs are kept in $dir" >&2
  fi
}
trap finish EXIT

"${build[@]}" -o "$dir/commons" .
go build -o "$dir/blackbox" ./scripts/blackbox
"$dir/blackbox" -binary "$dir/commons" -dir "$dir/run" "$@"
