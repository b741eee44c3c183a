# Jobs that run beside each other, for tests/run. What is still at work when the script ends is ended with it.

declare -A job=() # process group of each job, by its name
said=$(mktemp -d)
mkdir "$said/tmp"
export TMPDIR="$said/tmp" # what servers of a test that is killed leave there goes with the rest
set -m # each job is a process group of its own, so that it is ended with all that it has started
trap end_jobs EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

beside() { # beside NAME COMMAND...: starts it; `join` tells what it has said
  "${@:2}" </dev/null >"$said/$1" 2>&1 &
  job[$1]=$!
}

beside_aloud() { # the same, but what it says is told at once
  "${@:2}" </dev/null &
  job[$1]=$!
}

join() { # join NAME...: waits until they have ended, each told as it ends; red as soon as one is
  local name
  while [ $# -gt 0 ]; do
    for name in "$@"; do
      shift
      if is_at_work "$name"; then set -- "$@" "$name"; else tell_end "$name"; fi
    done
    [ $# -eq 0 ] || sleep 0.2
  done
}

is_at_work() {
  jobs -rp | grep -qx "${job[$1]}"
}

tell_end() {
  local status=0
  wait "${job[$1]}" || status=$?
  unset "job[$1]"
  if [ -s "$said/$1" ]; then
    printf -- '-- %s\n' "$1"
    cat "$said/$1"
  fi
  [ "$status" = 0 ] || printf 'red: %s (exit code %s)\n' "$1" "$status" >&2
  return "$status"
}

end_jobs() {
  local group
  for group in "${job[@]}"; do kill -TERM -- "-$group" 2>/dev/null || true; done
  { wait; } 2>/dev/null
  rm -rf "$said"
}
