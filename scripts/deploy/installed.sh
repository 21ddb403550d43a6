#!/usr/bin/env bash
# Follows the manual's chapter on systemd line by line, in a bare directory tree with the
# files of a release. Only systemd itself does not run there: this script starts the node
# as the unit does. Then root restores a backup, and the node has to start on it.
# With two Debian packages, it follows the chapter on packages with the first, upgrades to
# the second, and removes it: configuration and data have to stay.
#
#   scripts/deploy/installed.sh <directory of an unpacked release> [<package> <later package>]
set -euo pipefail

release="$(realpath "$1")"
package="${2:+$(realpath "$2")}"
later="${3:+$(realpath "$3")}"
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
  mkdir -p "$root"/{dev,tmp,etc/systemd/system,usr/lib/sysusers.d,usr/bin,usr/local/bin,var/lib/dpkg/{info,updates},var/lock,run}
  ln -s usr/bin "$root/bin"
  : >"$root/var/lib/dpkg/status"
  for program in bash sh install env setpriv rm chgrp systemd-sysusers systemctl; do
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

follow() { # <title>: the lines of a chapter, but without a start of the unit
  local lines
  lines="$(sed -n "/^## $1\$/,/^## /{/^\`\`\`sh\$/,/^\`\`\`\$/{/^\`\`\`/!p}}" "$manual")"
  [ -n "$lines" ] || fail "the manual has no commands under $1"
  inside bash -euxc "${lines/enable --now/enable}"
  [ -L "$root/etc/systemd/system/multi-user.target.wants/commons.service" ] || fail "the unit is not enabled"
}

dpkg_inside() { # <command> ...: of the host's dpkg on the tree, which has no other packages
  dpkg --root="$root" --log=/dev/null --force-unsafe-io --force-depends "$@"
}

settings() { # of a cluster of one, on this machine's loopback addresses
  local base=$((3000 + RANDOM % 3000)) # below the ports of tests
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

from_package() {
  bare_tree
  # In place of apt.
  dpkg_inside --install "$package"
  follow "With a Debian package"
  diff <(completion bash) "$root/usr/share/bash-completion/completions/commons"
  diff <(completion fish) "$root/usr/share/fish/vendor_completions.d/commons.fish"
  diff <(completion zsh) <(sed 1d "$root/usr/share/zsh/vendor-completions/_commons")
  sed "s#/usr/bin/commons#$root&#" "$root/usr/lib/systemd/system/commons.service" >"$root/tmp/commons.service"
  systemd-analyze verify --man=no "$root/tmp/commons.service" || fail "the unit of the package"
  settings
  echo '# by the operator' >>"$root/etc/commons/commons.env"
  start
  stop
  local before
  before="$(state)"
  dpkg_inside --install "$later"
  [ "$(state)" = "$before" ] || fail "the upgrade changed configuration or data: $before and $(state)"
  start
  stop
  dpkg_inside --remove commons
  [ ! -e "$root/usr/bin/commons" ] || fail "the program stays"
  [ "$(state)" = "$before" ] || fail "the removal changed configuration or data: $before and $(state)"
  dpkg_inside --purge commons
  [[ -s "$root/etc/commons/secret" && -s "$root/var/lib/commons/server-id.json" ]] || fail "the purge took secret or data"
  echo "installed: a package is installed, upgraded and removed, and configuration and data stay"
}

completion() { # <shell>
  "$root/usr/bin/commons" completion --code "$1" | sed "s#$root##"
}

state() { # names, owners, rights and settings; and the identity in the data
  (cd "$root" && stat --format '%n %U %G %a' etc/commons etc/commons/* var/lib/commons && sha256sum etc/commons/* var/lib/commons/server-id.json)
}

if [ -n "$package" ]; then
  from_package
  exit
fi
bare_tree
follow "With systemd"
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
