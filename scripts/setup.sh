#!/usr/bin/env bash
# One part of the set-up: python, system, monitoring, audit, models, node or client. Each may run again at any time.
# Prints a line per step; the output of a step is shown only when it fails.
set -euo pipefail
cd "$(dirname "$0")/.."

UV_VERSION=0.13.8
LOG=$(mktemp)
trap 'rm -f "$LOG"' EXIT

fail() {
  echo "set-up failed: $*" >&2
  exit 1
}

step() {
  local what=$1
  shift
  echo "· $what"
  "$@" >"$LOG" 2>&1 </dev/null || {
    { head -n 15 "$LOG" && tail -n +16 "$LOG" | tail -n 20; } >&2
    fail "$what; the lines above say why"
  }
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

llvmpipe_found() {
  compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json' >/dev/null
}

can_apt() {
  command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; }
}

apt_updated=
apt_install() {
  can_apt || return 1
  if [ -z "$apt_updated" ]; then
    as_root apt-get -qq -o DPkg::Lock::Timeout=120 update || return 1
    apt_updated=yes
  fi
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -y -o DPkg::Lock::Timeout=120 install --no-install-recommends "$@"
}

# A password, if sudo asks for one, is asked for here: steps have no terminal.
may_become_root() {
  if [ "$(id -u)" != 0 ] && command -v sudo >/dev/null && [ -t 0 ]; then sudo -v; fi
}

find_python() {
  local name
  for name in python3 python3.13 python3.12 python3.11; do
    if command -v "$name" >/dev/null &&
      "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
      echo "$name"
      return
    fi
  done
  fail "Python 3.11 or newer is needed (found: $(python3 --version 2>&1 || true));" \
    "install it, for example with apt-get install python3"
}

install_python() {
  local python
  python=$(find_python)
  if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    may_become_root
    step "installing python3-venv" apt_install python3-venv
  fi
  [ -x .venv/bin/pip ] || step "creating .venv" "$python" -m venv --clear .venv
  if ! .venv/bin/uv --version 2>/dev/null | grep -q " $UV_VERSION "; then
    step "installing uv $UV_VERSION" \
      .venv/bin/pip install --quiet --disable-pip-version-check "uv==$UV_VERSION"
  fi
  step "installing Python packages from requirements.lock" \
    env VIRTUAL_ENV="$PWD/.venv" .venv/bin/uv pip sync --require-hashes requirements.lock
  step "installing kernelzoo" env VIRTUAL_ENV="$PWD/.venv" \
    .venv/bin/uv pip install --no-deps --no-build-isolation --editable .
  touch .venv/.installed
}

chromium_found() {
  .venv/bin/python -m workers.fleet.chromium >/dev/null 2>&1
}

install_system() {
  may_become_root
  command -v redis-server >/dev/null ||
    step "installing redis-server" apt_install redis-server
  # A GPU in software, on which tests run WGSL kernels; they are skipped where there is none.
  llvmpipe_found || ! can_apt ||
    step "installing mesa-vulkan-drivers" apt_install mesa-vulkan-drivers
  if ! chromium_found; then
    echo "· installing Chromium"
    apt_install chromium >"$LOG" 2>&1 </dev/null && chromium_found || own_chromium
  fi
  touch .venv/.system
}

# Tests ask Prometheus itself, and its promtool. Debian's package starts a server on port 9090.
install_monitoring() {
  if ! command -v prometheus >/dev/null || ! command -v promtool >/dev/null; then
    may_become_root
    step "installing prometheus" apt_install prometheus
  fi
  touch .venv/.monitoring
}

install_audit() {
  step "creating .venv/audit" .venv/bin/uv venv --quiet --allow-existing .venv/audit
  step "installing the static analysis from tests/security/requirements.lock" \
    .venv/bin/uv pip sync --python .venv/audit/bin/python --require-hashes \
    tests/security/requirements.lock
  touch .venv/.audit
}

install_models() {
  step "creating .venv/models" .venv/bin/uv venv --quiet --allow-existing .venv/models
  step "installing PyTorch and exporters from bench/models/requirements.lock" \
    .venv/bin/uv pip sync --python .venv/models/bin/python --require-hashes \
    bench/models/requirements.lock
  touch .venv/.models
}

# Ubuntu has no Chromium package that runs outside a snap.
own_chromium() {
  local deps=
  can_apt && deps=--with-deps
  step "downloading Playwright's Chromium" .venv/bin/playwright install $deps chromium
  chromium_found || fail "no Chromium could be installed; install chromium or google-chrome"
}

install_node() {
  command -v node >/dev/null || fail "Node 20.19 or newer is needed; install nodejs and npm"
  command -v npm >/dev/null || fail "npm is needed; install it, for example with apt-get install npm"
  # The bundler's own builds are of these, and npm leaves them out for others without a word.
  node -e '
    const [major, minor] = process.versions.node.split(".").map(Number);
    const enough = (major === 20 && minor >= 19) || (major === 22 && minor >= 12) || major > 22;
    process.exit(enough ? 0 : 1);
  ' || fail "Node 20.19, 22.12 or newer is needed (found: $(node --version)); install a newer nodejs"
  # Not `npm ci`: it refuses a lock without the builds of an optional package for machines other
  # than those that we use (npm 11.19). Versions and hashes are those of the lock here, too.
  step "installing Node packages from package-lock.json" \
    npm --prefix client install --no-save --no-audit --no-fund
  touch client/node_modules/.installed
}

build_client() {
  step "building the client" npm --prefix client run --silent build
  touch client/dist/.built
}

case "${1:-}" in
  python) install_python ;;
  system) install_system ;;
  monitoring) install_monitoring ;;
  audit) install_audit ;;
  models) install_models ;;
  node) install_node ;;
  client) build_client ;;
  *) fail "usage: scripts/setup.sh python|system|monitoring|audit|models|node|client" ;;
esac
