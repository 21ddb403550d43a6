#!/usr/bin/env bash
# Looks at the pages of three real nodes on this machine with Chromium, which has to be
# installed: COMMONS_CHROMIUM names another one than that in PATH.
#
#   scripts/browser.sh              # test them
#   scripts/browser.sh -shots DIR   # write pictures of them
#   scripts/browser.sh -base COMMIT -shots DIR   # and compare them with those of a commit
#   scripts/browser.sh -docs docs/pictures       # write the pictures of the documents
#   scripts/browser.sh -paint       # measure when pages are painted on a slow CPU
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/built.sh
source scripts/built.sh browser
if [[ "${1:-}" == -base ]]; then
  mkdir "$dir/source"
  git archive "$2" | tar -x -C "$dir/source"
  (cd "$dir/source" && go build -buildvcs=false -o "$dir/former" .)
  set -- -base "$dir/former" "${@:3}"
fi
"$dir/browser" -binary "$dir/commons" -dir "$dir/run" "$@"
