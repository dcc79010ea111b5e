#!/bin/sh -e
# Makes a monitor of a directory, and waits for the first file.
mkdir -p "$OUT/watch"
fteCreateTransfer -gt task.xml -sa ALPHA -sm QM1 -da BETA -dm QM1 -sd delete -de overwrite -dd watched '${FilePath}'
fteCreateMonitor -ma ALPHA -mm QM1 -mn ESTATE_WATCH -md watch -pi 1 -pu seconds -tr 'match,*.csv' -mt task.xml -f | grep BFGCL0251I
fteListMonitors -ma ALPHA | tail -n +4 | awk '{ print $2 }' | grep -x ESTATE_WATCH
echo data >"$OUT/watch/.new"
mv "$OUT/watch/.new" "$OUT/watch/new.csv"
until [ -e "$IN/watched/new.csv" ]; do sleep 1; done
fteDeleteMonitor -ma ALPHA -mn ESTATE_WATCH
echo "the file has come"
