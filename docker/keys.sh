#!/bin/sh
# Makes the secrets that compose.yaml asks for, in .env, readable by their owner alone. Those that
# are there stay.
set -eu
cd "$(dirname "$0")/.."

key() {
  od -A n -N 32 -t x1 /dev/urandom | tr -d ' \n'
}

# The seed of an Ed25519 key, as base64url.
seed() {
  head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=\n'
}

has() {
  [ -e .env ] && grep -q "^$1=" .env
}

umask 077
[ ! -e .env ] || cp .env .env.draft
[ -e .env ] || : >.env.draft
made=""
for name in POSTGRES_PASSWORD POSTGRES_SERVICE_PASSWORD POSTGRES_READER_PASSWORD REDIS_PASSWORD \
  GRAFANA_PASSWORD KERNELZOO_OPERATOR_KEY KERNELZOO_TOKEN_SECRET; do
  has "$name" || { echo "$name=$(key)" >>.env.draft && made="$made $name"; }
done
has KERNELZOO_SIGNING_KEY || {
  echo "KERNELZOO_SIGNING_KEY=$(seed)" >>.env.draft && made="$made KERNELZOO_SIGNING_KEY"
}
if [ -z "$made" ]; then
  rm .env.draft
  echo ".env has all keys; they stay (docs/operations.md says how to rotate one)"
  exit 0
fi
mv .env.draft .env
echo "made in .env:$made"
