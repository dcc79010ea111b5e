#!/bin/sh
# Moves the files of a spool directory into a directory of the day.
DAY=$(date +%Y%m%d)
mkdir -p "$OUT/spool"
for n in 1 2 3; do echo "report $n" >"$OUT/spool/report$n.txt"; done
fteCreateTransfer -w -sa ALPHA -da BETA -sd delete -de error -dd "spool/$DAY" 'spool/*.txt' >/dev/null || exit
[ "$(ls "$IN/spool/$DAY" | wc -l)" -eq 3 ] || exit 9
[ -z "$(ls "$OUT/spool")" ] || exit 8
echo "spool is empty"
