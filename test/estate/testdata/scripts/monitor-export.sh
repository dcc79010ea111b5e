#!/bin/sh -e
# Exports a monitor, changes it and defines it again.
mkdir -p "$OUT/export"
fteCreateTransfer -gt task.xml -sa ALPHA -da BETA -dd exported '${FilePath}'
fteCreateMonitor -ma ALPHA -mn ESTATE_EXPORT -md export -pi 5 -tr 'match,*.dat' -mt task.xml
fteListMonitors -ma ALPHA -mn ESTATE_EXPORT -ox export.xml
sed 's/\*\.dat/*.txt/' export.xml >changed.xml
fteCreateMonitor -ix changed.xml -f
fteListMonitors -v -ma ALPHA -mn ESTATE_EXPORT | grep '^Pattern: *\*\.txt'
mkdir -p all
fteListMonitors -ma ALPHA -mn 'ESTATE_EXP*' -od all
[ -e all/ALPHA.ESTATE_EXPORT.xml ]
fteDeleteMonitor -ma ALPHA -mn ESTATE_EXPORT
echo "the monitor is changed"
