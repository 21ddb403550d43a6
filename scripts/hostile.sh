#!/usr/bin/env bash
# Attacks three real nodes as strangers would: `scripts/hostile.sh [-long] [-only "an attack"]`.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/built.sh
source scripts/built.sh hostile
"$dir/hostile" -binary "$dir/commons" -dir "$dir/run" "$@"
