#!/usr/bin/env bash
# Looks at the pages of three real nodes on this machine with Chromium, which has to be
# installed: COMMONS_CHROMIUM names another one than that in PATH.
#
#   scripts/browser.sh              # test them
#   scripts/browser.sh -shots DIR   # write pictures of them
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/built.sh
source scripts/built.sh browser
"$dir/browser" -binary "$dir/commons" -dir "$dir/run" "$@"
