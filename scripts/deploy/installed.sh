#!/usr/bin/env bash
# Follows the manual's chapter on systemd line by line, in a bare directory tree with the
# files of a release. Only systemd itself does not run there: this script starts the node
# as the unit does. Then root restores a backup, and the node has to start on it.
#
#   scripts/deploy/installed.sh <directory of an unpacked release>
set -euo pipefail

release="$(realpath "$1")"
readonly manual="$release/docs/operating/install.md"
readonly patience=60s
if ((EUID != 0)); then
  echo "installed: skipped, only root can change the root directory"
  exit 0
fi
root="$(mktemp -d "${TMPDIR:-/tmp}/commons-installed.XXXXXX")"
node=""
cleanup() {
  if [ -n "$node" ]; then kill -KILL "$(cat "$root/run/node.pid")" 2>/dev/null || true; fi
  rm -rf "$root"
}
trap cleanup EXIT

fail() {
  echo "installed: $*" >&2
  cat "$root/node.log" >&2 || true
  exit 1
}

bare_tree() { # with the programs that the manual and the unit use
  chmod 755 "$root" # its users enter it
  local program library
  mkdir -p "$root"/{dev,tmp,etc/systemd/system,usr/lib/sysusers.d,usr/local/bin,var/lib,var/lock,run}
  for program in bash install env setpriv rm systemd-sysusers systemctl; do
    program="$(command -v "$program")"
    install -D "$program" "$root/$program"
    while read -r library; do
      [ -e "$root$library" ] || install -D "$library" "$root$library"
    done < <(ldd "$program" | grep --only-matching '/[^ ]*')
  done
  echo 'root:x:0:0:root:/root:/bin/bash' >"$root/etc/passwd"
  echo 'root:x:0:' >"$root/etc/group"
  mknod -m 666 "$root/dev/null" c 1 3
  cp -r "$release" "$root/release"
}

inside() { # <command> ...: as root, in the unpacked release
  env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin SYSTEMD_OFFLINE=1 \
    chroot "$root" bash -euc 'cd /release && "$@"' inside "$@"
}

follow() { # the lines of the chapter, but without a start of the unit
  local lines
  # shellcheck disable=SC2016 # an expression of sed
  lines="$(sed -n '/^## With systemd$/,/^## /{/^```sh$/,/^```$/{/^```/!p}}' "$manual")"
  [ -n "$lines" ] || fail "the manual has no commands for systemd"
  inside bash -euxc "${lines/enable --now/enable}"
  [ -L "$root/etc/systemd/system/multi-user.target.wants/commons.service" ] || fail "the unit is not enabled"
}

settings() { # of a cluster of one, on this machine's loopback addresses
  local base=$((20000 + RANDOM % 10000))
  sed -i -e "s/192.0.2.11:8080/127.0.0.1:$base/; s/192.0.2.11:7000/127.0.0.1:$((base + 1))/; s/192.0.2.11:7946/127.0.0.1:$((base + 2))/" \
    -e 's/^COMMONS_BOOTSTRAP_EXPECT=.*/COMMONS_BOOTSTRAP_EXPECT=1/; /^COMMONS_JOIN=/d' "$root/etc/commons/commons.env"
}

start() { # as the unit does, with its user and its settings
  install -d -m 700 "$root/var/lib/commons"
  inside install -d -m 700 -o commons -g commons /var/lib/commons
  inside bash -euc 'set -a; source /etc/commons/commons.env; set +a
    echo $$ >/run/node.pid
    exec setpriv --reuid=commons --regid=commons --clear-groups --no-new-privs commons serve' >>"$root/node.log" 2>&1 &
  node=$!
  inside commons health --voter --wait "$patience" >>"$root/node.log" 2>&1 || fail "the node is not ready"
}

stop() {
  kill -TERM "$(cat "$root/run/node.pid")"
  wait "$node" || fail "the node ended with an error"
  node=""
}

bare_tree
follow
settings
start
inside commons members 2>"$root/members.err" || fail "a command of an operator fails"
grep -q 'from /etc/commons/commons.env' "$root/members.err" || fail "a command does not use the settings: $(cat "$root/members.err")"
inside commons snapshot save /release/backup
stop
inside bash -euc 'rm -rf /var/lib/commons/*'
inside commons snapshot restore /release/backup --accept-purged-since 2000-01-01T00:00:00Z
start
stop
echo "installed: the chapter on systemd works, and a node starts on what root restored"
