#!/usr/bin/env bash
# Puts known bugs back, one by one, and fails when the tests do not notice one of
# them: scripts/mutants.sh [words of a bug's name ...]. It works on a copy.
set -euo pipefail
cd "$(dirname "$0")/.."
exec go run ./scripts/mutants "$@"
