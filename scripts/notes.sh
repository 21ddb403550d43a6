#!/usr/bin/env bash
# Prints the section of CHANGELOG.md on a version: the notes of its release.
#
#   scripts/notes.sh v1.2.3
set -euo pipefail
cd "$(dirname "$0")/.."
version="${1#v}"
notes="$(awk -v heading="## [$version]" 'index($0, "## [") == 1 { inside = index($0, heading) == 1; next } inside' CHANGELOG.md)"
if [ -z "${notes//[[:space:]]/}" ]; then
  echo "notes.sh: CHANGELOG.md has no section $version; move what stands under Unreleased there" >&2
  exit 1
fi
printf '%s\n' "$notes"
