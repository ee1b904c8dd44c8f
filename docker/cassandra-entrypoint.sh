#!/bin/bash
# Adds what cvs needs to the image's cassandra.yaml, once, then starts the image's own entry point.
set -eu
yaml=/etc/cassandra/cassandra.yaml
if ! grep -q '^# cvs' "$yaml"; then
  sed -i -E '/^(commitlog_sync|commitlog_sync_period|cdc_enabled|paxos_variant|paxos_state_purging):/d' "$yaml"
  cat >> "$yaml" <<'YAML'
# cvs
commitlog_sync: group
commitlog_sync_group_window: 2ms
cdc_enabled: true
cdc_raw_directory: /var/lib/cassandra/cdc_raw
paxos_variant: v2
paxos_state_purging: repaired
YAML
fi
exec docker-entrypoint.sh "$@"
