#!/bin/sh
# Makes the cluster at the first start, runs the scripts of /docker-entrypoint-initdb.d in it, and
# serves it: what compose.yaml asks of PostgreSQL's image.
set -eu
if [ "$(id -u)" = 0 ]; then
  install -d -m 700 -o postgres -g postgres "$PGDATA"
  chown postgres:postgres /var/run/postgresql
  exec setpriv --reuid postgres --regid postgres --clear-groups "$0" "$@"
fi
options="-c unix_socket_directories=$PGHOST"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  umask 077
  printf '%s' "$POSTGRES_PASSWORD" >/tmp/password
  initdb --username "$POSTGRES_USER" --pwfile /tmp/password --auth-local trust \
    --auth-host scram-sha-256 --encoding UTF8 --locale C.UTF-8 >/dev/null
  rm /tmp/password
  echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
  pg_ctl --silent --wait --options "$options -c listen_addresses=" start
  createdb --username "$POSTGRES_USER" "$POSTGRES_DB"
  for script in /docker-entrypoint-initdb.d/*.sh; do
    [ ! -e "$script" ] || "$script"
  done
  pg_ctl --silent --wait --mode fast stop
fi
# shellcheck disable=SC2086 # two words
exec postgres $options -c 'listen_addresses=*'
