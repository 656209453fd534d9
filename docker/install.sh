#!/bin/sh
# The steps of the Dockerfile. CI runs the same ones into a folder: see tests/unit/deploy.
#   install.sh mirror                 Debian's packages from $DEBIAN_MIRROR, where that is set
#   install.sh certificates           trust in the authorities of $CA_CERTIFICATES, beside Debian's
#   install.sh node                   the client's packages, in ./client
#   install.sh client DIRECTORY       the client's files
#   install.sh packages IMAGE PREFIX  a virtual environment with what docker/requirements locks
#   install.sh code PREFIX            our own packages beside it, byte-compiled: no one may write there
set -eu

# Paths in site-packages that nothing reads at run time.
UNREAD="tvm/3rdparty tvm/src tvm/include tvm/web tvm/libtvm_runtime_cuda.so numpy/*/tests numpy/tests
  scipy/*/tests scipy/*/*/tests xgboost/testing"

mirror() {
  [ -n "${DEBIAN_MIRROR:-}" ] || return 0
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  rm -f /etc/apt/sources.list.d/*
  printf 'deb %s %s main\n' "$DEBIAN_MIRROR" "$suite" "$DEBIAN_MIRROR" "$suite-updates" \
    >/etc/apt/sources.list
}

certificates() {
  [ -n "${CA_CERTIFICATES:-}" ] || return 0
  printf '%s\n' "$CA_CERTIFICATES" >/usr/local/share/ca-certificates/kernelzoo.crt
  update-ca-certificates --fresh >/dev/null
}

packages() {
  # Found before there is another in the virtual environment, which is first on the image's path.
  lock=docker/requirements/$1.lock venv=$2/venv python=$(command -v python3)
  "$python" -m venv --without-pip "$venv"
  "$python" -m pip --python "$venv" install --quiet --disable-pip-version-check --no-compile \
    --require-hashes --no-deps --only-binary :all: --requirement "$lock"
  for pattern in $UNREAD; do
    # shellcheck disable=SC2086 # the pattern is meant to expand
    rm -rf "$venv"/lib/python3*/site-packages/$pattern
  done
}

code() {
  cp -R kernelzoo services workers "$1"
  find "$1" -name __pycache__ -prune -exec rm -rf {} +
  for site in "$1"/venv/lib/python3*/site-packages; do
    echo "$1" >"$site/kernelzoo.pth"
  done
  "$1/venv/bin/python" -m compileall -q -j 0 --invalidation-mode unchecked-hash "$1"
}

node_packages() {
  if [ -n "${CA_CERTIFICATES:-}" ]; then
    NODE_EXTRA_CA_CERTS=$(mktemp)
    export NODE_EXTRA_CA_CERTS
    printf '%s\n' "$CA_CERTIFICATES" >"$NODE_EXTRA_CA_CERTS"
  fi
  # Not `npm ci`, for the reason that scripts/setup.sh gives.
  npm --prefix client install --no-save --no-audit --no-fund --silent
}

client() {
  npm --prefix client run --silent build
  mkdir -p "$1"
  cp -R client/dist/. "$1"
}

case "${1:-}" in
  mirror) mirror ;;
  certificates) certificates ;;
  node) node_packages ;;
  client) client "$2" ;;
  packages) packages "$2" "$3" ;;
  code) code "$2" ;;
  *)
    echo "usage: install.sh mirror | certificates | node | client DIRECTORY | packages IMAGE PREFIX | code PREFIX" >&2
    exit 2
    ;;
esac
