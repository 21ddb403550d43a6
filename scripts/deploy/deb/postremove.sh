#!/bin/sh
# Data, secret and user stay, also after a purge: nobody else may have them.
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
