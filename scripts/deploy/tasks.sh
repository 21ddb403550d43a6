#!/usr/bin/env bash
# Starts three nodes by hand, as the README says, and follows its other examples and the manual's
# pages of tasks and of daily work line by line, but for what scripts/compose.sh does with containers.
#
#   scripts/deploy/tasks.sh <commons binary>
set -euo pipefail
repository="$(realpath "$(dirname "$0")/../..")"
readonly repository readme="$repository/README.md" manual="$repository/docs/operating" patience=90s
page="$manual/tasks.md"
work="$(mktemp -d "${TMPDIR:-/tmp}/commons-tasks.XXXXXX")"
# In place of the 81 and 71 at the begin of the documents' ports.
public=$((20 + RANDOM % 30)) private=$((public + 40)) # below the ports of outgoing connections, and those of the tests
cleanup() {
  local pids
  mapfile -t pids < <(jobs -p)
  if ((${#pids[@]} > 0)); then kill -KILL "${pids[@]}" 2>/dev/null || true; fi
  wait 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT
mkdir "$work/bin"
cp "$1" "$work/bin/commons"
cd "$work"

fail() {
  tail -n 5 "$work"/*.log >&2 || true
  echo "tasks: $*" >&2
  exit 1
}

commands() { # <file> <title> [<number of a block>]: the examples that are not for containers
  awk -v title="## $2" -v wanted="${3:-0}" '
    /^## / {on = $0 == title}
    !/^    / {inside = 0; next}
    on {if (!inside++) n++; if (!wanted || n == wanted) print substr($0, 5)}' "$1" |
    sed -e '/docker/d; /^go /d' -e "s/127\.0\.0\.1:80/127.0.0.1:$public/g; s/127\.0\.0\.1:81/127.0.0.1:$public/g; s/127\.0\.0\.1:71/127.0.0.1:$private/g" \
      -e "s#/etc/haproxy/haproxy.cfg#$work/haproxy.cfg#; s/systemctl reload haproxy/kill -USR2 \$haproxy/"
}

follow() { # <title> [<number of a block>]: on the page of tasks, or that in $page
  local lines
  lines="$(commands "$page" "$@")"
  [ -n "$lines" ] || fail "$page has no commands under $1"
  echo "tasks: $1"
  eval "$lines" >>"$work/tasks.log" 2>&1 || fail "a command under $1 fails"
}

curl() { command curl --silent --show-error --fail-with-body "$@"; }

start() { # the three nodes of the README
  eval "$(commands "$readme" "Three nodes for real" | sed '/--bootstrap-expect 3/s/$/ \&/')" >>"$work/nodes.log" 2>&1
  local i
  for i in 0 1 2; do
    bin/commons health --voter --wait "$patience" --http-addr "127.0.0.1:${public}8$i" --cluster-addr "127.0.0.1:${private}0$i" --secret-file data/secret >/dev/null ||
      fail "the nodes of the README do not start"
  done
}

voters_are() { # <suffix of a private port> ...
  local found
  found="$(bin/commons members --cluster-addr "127.0.0.1:${private}00" --secret-file data/secret | sed -n "s/.* voter .* 127\.0\.0\.1:$private\([0-9]*\) .*/\1/p" | sort)"
  [ "$(xargs <<<"$found")" = "$*" ]
}

measured() { # <server>: whether HAProxy has it in both backends
  (($(curl --max-time 5 "http://127.0.0.1:${public}99/metrics" | grep --count "haproxy_server_bytes_in_total{.*server=\"$1\"") == 2))
}

until_works() { # <command> ...
  local end=$((SECONDS + ${patience%s}))
  until "$@"; do
    ((SECONDS < end)) || fail "not within $patience: $*"
    sleep 0.2
  done
}

# alerts_are_found checks that the page leads to each alert, and puts the critical ones first.
alerts_are_found() {
  local alert severity now said n=0
  now="$(grep 'act now' "$page")"
  while read -r alert severity; do
    n=$((n + 1))
    grep --quiet "(alerts.md#${alert,,})" "$page" || fail "the page of tasks does not name $alert"
    said=warning
    if [[ "$now" == *"[$alert]"* ]]; then said=critical; fi
    [ "$severity" = "$said" ] || fail "$alert is $severity, and the page of tasks says otherwise"
  done < <(awk '/- alert:/ {name = $3} /severity:/ {gsub(/[{}]/, ""); print name, $3}' "$repository/scripts/deploy/prometheus/rules.yml")
  ((n > 20)) || fail "there are $n alerts"
}

start
page="$readme" follow "Quick start" 2
if (page="$readme" follow "Quick start" 3) >/dev/null 2>&1; then fail "the README's wrong call is not rejected"; fi
grep --quiet '"issues":\[{' tasks.log || fail "the README's wrong call is answered with something else"
export XDG_CONFIG_HOME="$work"
page="$readme" follow "For agents"
(page="$manual/operate.md" follow "Commands for operators")
(page="$manual/operate.md" follow "Health, status, metrics")
voters_are 00 01 02 || fail "three nodes are not the voters"
follow "Add a node"
added=$!
voters_are 00 01 02 03 || fail "the node that was added is no voter"
follow "Remove a node"
code=0
wait "$added" || code=$?
((code == 3)) || fail "the node that left ended with code $code"
kill -KILL "$(pgrep --parent $$ --full -- '--node-id c ')"
follow "Replace a machine"
until_works voters_are 00 01 04

sed -e '/^    user /d; /^    group /d; /bind :80$/d; s#/dev/log local0#stdout format raw local0#' -e "s/bind :443.*/bind 127.0.0.1:${public}98/; s/bind :8404/bind 127.0.0.1:${public}99/" \
  "$repository/scripts/deploy/haproxy/haproxy-tls.cfg" >haproxy.cfg
haproxy -W -db -f haproxy.cfg >haproxy.log 2>&1 &
export haproxy=$! # for the manual's reload
until_works measured node3
follow "Put a node into or out of HAProxy" 1
until_works measured node4
follow "Put a node into or out of HAProxy" 2
unmeasured() { measured node3 && ! measured node4; }
until_works unmeasured

follow "Roll an upgrade back" 1
follow "Get a debug bundle"
(($(tar --list --gzip --file commons-debug.tar.gz | grep --count '/report.json$') == 3)) || fail "the bundle has not the reports of three nodes"

# Move the cluster, with the disks, all at once.
mapfile -t nodes < <(pgrep --parent $$ --full -- ' serve ')
kill "${nodes[@]}"
wait "${nodes[@]}"
rm -rf data/c
mv data/new-c data/c
public=$((public + 10)) private=$((private + 10))
start
curl "http://127.0.0.1:${public}82/api/entries" | grep --quiet 'Hello from Ada' || fail "the cluster lost an entry when it moved"
alerts_are_found
echo "tasks: each is done as the manual says"
