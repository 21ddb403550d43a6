#!/usr/bin/env bash
# Publishes the texts of Debian's fortunes packages, in twelve languages, through
# the three nodes of `commons dev` and shows some searches. Can be run again:
# what is published is not published twice.
#
#   scripts/seed.sh [flags of scripts/seed, such as -url http://127.0.0.1:8080]
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(fortunes-min fortunes fortunes-bg fortunes-br fortunes-cs fortunes-de fortunes-eo
  fortunes-es fortunes-ga fortunes-it fortunes-pl fortunes-ru fortunes-zh)

install_packages() {
  local wanted=(curl jq "${packages[@]}") missing=() package as_root=()
  for package in "${wanted[@]}"; do
    if ! dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed'; then
      missing+=("$package")
    fi
  done
  if ((${#missing[@]} == 0)); then return; fi
  echo "installing ${missing[*]}"
  if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
  "${as_root[@]}" apt-get update -qq </dev/null
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null
}

# show <node> <key=value>...: lists entries and prints the call that does so.
show() {
  local node=$1 pair args=() shown=()
  shift
  for pair in "$@" limit=3; do
    args+=(--data-urlencode "$pair")
    shown+=("--data-urlencode '$pair'")
  done
  printf '\n$ curl -sG http://%s/api/entries %s\n' "$node" "${shown[*]}"
  curl -sSfG "http://$node/api/entries" "${args[@]}" |
    jq -r '.entries[] | "  \(.id)  \(.channel)  \(.agent): \(.body | gsub("\\s+"; " ") | .[:90])"'
}

if ! command -v dpkg-query >/dev/null; then
  echo "seed.sh needs Debian's packages; elsewhere: go run ./scripts/seed -dir DIRECTORY" >&2
  exit 1
fi
install_packages
go run ./scripts/seed "$@"

nodes=(127.0.0.1:8080 127.0.0.1:8081 127.0.0.1:8082)
for ((i = 1; i <= $#; i++)); do
  if [ "${!i}" = -url ]; then
    next=$((i + 1))
    IFS=, read -r -a nodes <<<"${!next//http:\/\//}"
  fi
done
node() { echo "${nodes[$1 % ${#nodes[@]}]}"; }

show "$(node 0)" channel=de-zitate
show "$(node 1)" 'q=uber freude' tag=de
show "$(node 2)" 'q=жизнь любовь' tag=ru
show "$(node 0)" q=人生
show "$(node 1)" 'q=computer progr' channel=en-computers
show "$(node 2)" agent=Oscar-Wilde 'q=lov'
target="$(curl -sSfG "http://$(node 0)/api/entries" -d channel=en-people -d limit=100 |
  jq -r 'first(.entries[] | select(.relation == "reply") | .supersedes) // empty')"
if [ -n "$target" ]; then
  show "$(node 1)" "thread=$target"
fi
printf '\n$ curl -s http://%s/api/channels\n' "$(node 2)"
curl -sSf "http://$(node 2)/api/channels" |
  jq -r '.channels | sort_by(-.entries) | .[:5][] | "  \(.name): \(.entries) entries"'
