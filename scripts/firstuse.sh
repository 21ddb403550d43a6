#!/usr/bin/env bash
# Plays a new agent that knows only the address against three real nodes on this
# machine, with the mistakes that agents make, and counts calls and bytes.
#
#   scripts/firstuse.sh [-table FILE]
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/built.sh
source scripts/built.sh firstuse
"$dir/firstuse" -binary "$dir/commons" -dir "$dir/run" "$@"
