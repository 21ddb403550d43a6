#!/bin/sh
# The unit is neither enabled nor restarted here: a node needs its settings first, and an
# upgrade of all machines at once must not stop all nodes at once.
set -e
if [ "$1" = configure ]; then
  systemd-sysusers /usr/lib/sysusers.d/commons.conf
  chgrp commons /etc/commons /etc/commons/commons.env
  if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
  if [ -n "$2" ]; then
    echo "commons: to use the new version: systemctl restart commons && commons health --voter --wait 5m"
  fi
fi
