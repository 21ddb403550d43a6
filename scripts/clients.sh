#!/usr/bin/env bash
# Visits three real nodes as a newcomer does, and plays one list of scenarios with the clients in
# Python and JavaScript. Before, it makes clients of the OpenAPI document with two generators, builds a
# program with one of them in a module of its own, and runs that.
#
#   scripts/clients.sh [-only SCENARIO]
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/built.sh
source scripts/built.sh clients
cp -r scripts/clients/author "$dir/src"
# As it is served: answers may have further members.
sed -Ez 's/,\s*"additionalProperties": false//g' api/openapi.json >"$dir/src/commons/openapi.json"

(
  cd "$dir/src"
  echo "oapi-codegen: types and client"
  go generate ./...
  go vet ./...
  go build -o "$dir/author" .

  echo "ogen: types, client and server"
  if ! go tool ogen --target "$dir/ogen" --package commons --clean commons/openapi.json >"$dir/ogen.log" 2>&1; then
    cat "$dir/ogen.log" >&2
    exit 1
  fi
)

"$dir/clients" -binary "$dir/commons" -author "$dir/author" -dir "$dir/run" "$@"
