#!/usr/bin/env bash
# Fetches VictoriaMetrics, a receiver of OTLP that answers PromQL, into target/servers/victoria-metrics. Debian's stable
# release has it; older ones have a version without OTLP, so it is taken from there, checked by apt with Debian's key.
# Nothing is installed and the system's own package lists stay as they are. Runs again at no cost.
set -euo pipefail
cd "$(dirname "$0")/../.."

suite=trixie
target=target/servers/victoria-metrics
[ -x "$target/victoria-metrics" ] && exit 0

mkdir -p target/servers
work=$(mktemp -d "$PWD/target/servers/.victoria-metrics.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/lists/partial "$work"/cache/archives/partial
mirror=$(apt-get indextargets --format '$(SITE)' 2>/dev/null | grep -m1 /debian$ || true)
key=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$key] ${mirror:-http://deb.debian.org/debian} $suite main" >"$work/sources.list"
apt() {
  apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root "$@"
}
apt update
(cd "$work" && apt download victoria-metrics)
dpkg -x "$work"/victoria-metrics_*.deb "$work/root"
mkdir -p "$target"
mv "$work/root/usr/bin/victoria-metrics" "$target/victoria-metrics"
"$target/victoria-metrics" -version
