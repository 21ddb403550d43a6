#!/usr/bin/env bash
# Replaces this version by a made-up later one, and each version in scripts/releases.tsv by this
# one: node by node under load, with a rollback before the format is raised, and with a restore of
# a backup that the former version made.
#
#   scripts/upgrade.sh [-seed N]
set -euo pipefail
cd "$(dirname "$0")/.."

work="$(mktemp -d "${TMPDIR:-/tmp}/commons-upgrade.XXXXXX")"
trap 'rm -rf "$work"' EXIT

upgrade() { # <name of the former version> <its binary> <later binary> <scenario> [<flag of chaos> ...]
  echo "== from $1"
  CHAOS_BINARY="$2" scripts/chaos.sh -least 10 -scenario "$4" -later "$3" "${@:5}"
}

echo "upgrade: building this version and a later one" >&2
go build -o "$work/this" .
# shellcheck source=scripts/later.sh
source scripts/later.sh "$work"
go build "${later[@]}" -o "$work/later" .
upgrade "this version" "$work/this" "$work/later" 'upgraded to a later version and format' "$@"
while IFS=$'\t' read -r -u 3 version commit; do
  mkdir "$work/source"
  git archive "$commit" | tar --extract --directory "$work/source"
  (cd "$work/source" && go build -buildvcs=false -o "$work/released" .)
  rm -rf "$work/source"
  upgrade "$version" "$work/released" "$work/this" 'upgraded to a later version' "$@"
done 3< <(grep -v '^#' scripts/releases.tsv)
