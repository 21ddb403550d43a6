#!/usr/bin/env bash
# Plays about 3,000 requests against a node of an old version, that of a commit, and against
# one of this tree, and compares the answers. scripts/replay/deleted.txt names the deletions
# that explain differences; any other difference is a regression.
#
#   scripts/replay.sh [COMMIT [-seed N]]
set -euo pipefail
cd "$(dirname "$0")/.."

commit="${1:-634967de}"
# shellcheck source=scripts/built.sh
source scripts/built.sh replay
git worktree add --detach --quiet "$dir/source" "$commit"
remove() { git worktree remove --force "$dir/source"; rm -rf "$dir"; }
trap remove EXIT
go build -C "$dir/source" -o "$dir/old" .
"$dir/replay" -old "$dir/old" -binary "$dir/commons" -dir "$dir/run" "${@:2}"
