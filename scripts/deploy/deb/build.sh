#!/usr/bin/env bash
# Builds the Debian package of an unpacked release. The same release gives the same bytes.
#
#   scripts/deploy/deb/build.sh DEB RELEASE VERSION ARCH SECONDS FILE
#
# DEB is the program of tools/deploy/deb, SECONDS the time of the files since the epoch.
set -euo pipefail

deb=$1
HERE="$(cd "$(dirname "$0")" && pwd)"
TREE="$(realpath "$2")"
VERSION=$3 ARCH=$4
WORK="$(mktemp -d "${TMPDIR:-/tmp}/commons-deb.XXXXXX")"
trap 'rm -rf "$WORK"' EXIT
export VERSION ARCH SOURCE_DATE_EPOCH=$5

sed 's#/usr/local/bin/commons#/usr/bin/commons#; /^#/d' "$TREE/scripts/deploy/systemd/commons.service" >"$WORK/commons.service"
sed -e "s#\${TREE}#$TREE#; s#\${WORK}#$WORK#; s#\${HERE}#$HERE#" "$HERE/nfpm.yaml" >"$WORK/nfpm.yaml"
"$deb" "$WORK/nfpm.yaml" "$6"
