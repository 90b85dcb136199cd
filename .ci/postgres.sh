#!/usr/bin/env bash
# The programs of PostgreSQL, where they are missing. Nothing is started: the tests start clusters
# of their own, in temporary folders, as a user without privileges.
set -euo pipefail

if command -v pg_ctl >/dev/null || compgen -G "/usr/lib/postgresql/*/bin/pg_ctl" >/dev/null; then
    exit 0
fi
as_root=()
if [[ "$(id -u)" != 0 ]]; then
    as_root=(sudo)
fi
# Debian would make and start a cluster for the whole machine.
"${as_root[@]}" mkdir -p /etc/postgresql-common
echo "create_main_cluster = false" |
    "${as_root[@]}" tee /etc/postgresql-common/createcluster.conf >/dev/null
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends postgresql >/dev/null
