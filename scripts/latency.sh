#!/usr/bin/env bash
# Prints how long `ferry send` takes from start to finish for one 1 KiB file in
# one box: the median, least and most of 15 runs, in milliseconds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME="$work/state"
head -c 1024 /dev/urandom >"$work/file"
mkdir "$work/out"
times=()
for i in $(seq 15); do
  from=$(date +%s%N)
  bin/ferry send --quiet "$work/file" "$work/out/$i"
  times+=($((($(date +%s%N) - from) / 1000000)))
  cmp "$work/file" "$work/out/$i"
done
printf '%s\n' "${times[@]}" | sort -n | awk '{ t[NR] = $1 }
  END { printf "one 1 KiB file in one box, start to finish: median %d ms, least %d, most %d, %d runs\n", t[int((NR + 1) / 2)], t[1], t[NR], NR }'
