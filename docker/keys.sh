#!/bin/sh
# Makes the secrets that compose.yaml asks for, once, in .env, readable by their owner alone.
set -eu
cd "$(dirname "$0")/.."

if [ -e .env ]; then
  echo ".env exists; its keys stay (docs/operations.md says how to rotate one)"
  exit 0
fi

key() {
  od -A n -N 32 -t x1 /dev/urandom | tr -d ' \n'
}

umask 077
for name in POSTGRES_PASSWORD POSTGRES_READER_PASSWORD GRAFANA_PASSWORD \
  KERNELZOO_OPERATOR_KEY KERNELZOO_TOKEN_SECRET; do
  echo "$name=$(key)"
done >.env.draft
mv .env.draft .env
echo "made the keys in .env"
