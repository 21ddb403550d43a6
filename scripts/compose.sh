#!/usr/bin/env bash
# Runs docker-compose.cluster.yml for real, with images made here: kills, pauses,
# restarts, wipes and recreates its containers under load, and follows the manual.
#
#   scripts/compose.sh [-keep] [-long]
#
# -keep leaves the containers of a failed run, -long pauses nodes for 60 s instead
# of 25, and restarts five as well as three. Exit code 77: no container engine
# answers here, and nothing was run.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly skipped=77
if ! docker info >/dev/null 2>&1; then
  echo "compose: skipped: no container engine answers"
  exit "$skipped"
fi
images="$(scripts/compose-offline.sh --later)"
eval "$images"
scenario='behind the balancer' flags=()
for argument in "$@"; do
  case "$argument" in
    -long) scenario+=' with long pauses' ;;
    *) flags+=("$argument") ;;
  esac
done
# shellcheck source=scripts/built.sh
source scripts/built.sh chaos
"$dir/chaos" -binary "$dir/commons" -dir "$dir/run" -out "$dir/reports" -scenario "$scenario" "${flags[@]}"
