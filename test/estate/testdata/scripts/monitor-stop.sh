#!/bin/sh
# Stops a monitor for the time of a maintenance.
mkdir -p "$OUT/stop"
fteCreateTransfer -gt task.xml -sa ALPHA -da BETA -dd stopped '${FilePath}' || exit
fteCreateMonitor -ma ALPHA -mn ESTATE_STOP -md stop -pi 1 -pu hours -tr 'noSizeChange=3,*' -x '*.tmp' -mt task.xml || exit
fteStopMonitor -ma ALPHA -mn ESTATE_STOP || exit
fteListMonitors -v -mn ESTATE_STOP | grep '^Status: *stopped' || exit 9
fteClearMonitorHistory -ma ALPHA -mn ESTATE_STOP -w || exit
fteStartMonitor -ma ALPHA -mn ESTATE_STOP || exit
fteCreateMonitor -ma ALPHA -mn ESTATE_STOP -md stop -mt task.xml 2>/dev/null
[ $? -eq 105 ] || exit 8
fteDeleteMonitor -ma ALPHA -mn ESTATE_STOP || exit
fteListMonitors -ma ALPHA -mn ESTATE_STOP 2>/dev/null
[ $? -eq 104 ] || exit 7
echo "the monitor has stopped and started"
