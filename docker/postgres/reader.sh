#!/bin/sh
# PostgreSQL's image runs this once, on an empty volume: the role that Grafana reads with.
set -eu
psql --quiet --no-psqlrc --set ON_ERROR_STOP=1 --set password="$POSTGRES_READER_PASSWORD" \
  --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
CREATE ROLE kernelzoo_reader LOGIN PASSWORD :'password';
ALTER ROLE kernelzoo_reader SET default_transaction_read_only = on;
ALTER ROLE kernelzoo_reader SET statement_timeout = '10s';
-- Migrations run after this, as the role that runs it.
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO kernelzoo_reader;
SQL
