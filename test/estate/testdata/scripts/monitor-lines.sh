#!/bin/sh -e
# A file with the names to send starts the transfer.
mkdir -p "$OUT/lists"
fteCreateTransfer -gt task.xml -sa ALPHA -da BETA -de overwrite -dd '${contentDestination}' '${contentSource}'
fteCreateMonitor -ma ALPHA -mn ESTATE_LINES -md lists -pi 1 -pu seconds -tr 'match,*.lst' -tc -mt task.xml
printf 'orders.csv,chosen\nstock.csv,chosen\n' >"$OUT/lists/.day"
mv "$OUT/lists/.day" "$OUT/lists/day.lst"
until [ -e "$IN/chosen/orders.csv" ] && [ -e "$IN/chosen/stock.csv" ]; do sleep 1; done
fteDeleteMonitor -ma ALPHA -mn ESTATE_LINES
echo "the chosen files have come"
