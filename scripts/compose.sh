#!/usr/bin/env bash
# Runs docker-compose.cluster.yml for real, with images made here: kills, pauses,
# restarts, wipes and recreates its containers under load, and follows the manual.
#
#   scripts/compose.sh [-long]
#
# -long pauses nodes for 60 s instead of 25, and restarts five as well as three. Exit code
# 77: no container engine answers here, and nothing was run.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly skipped=77
if ! docker info >/dev/null 2>&1; then
  echo "compose: skipped: no container engine answers"
  exit "$skipped"
fi
images="$(scripts/compose-offline.sh)"
eval "$images"
scenario='behind the balancer'
if [ "${1:-}" = -long ]; then scenario+=' with long pauses'; fi
# shellcheck source=scripts/built.sh
source scripts/built.sh chaos
"$dir/chaos" -binary "$dir/commons" -dir "$dir/run" -scenario "$scenario"
