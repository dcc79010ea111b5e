#!/bin/sh
# Starts a transfer without waiting, and cancels it.
ID=$(fteCreateTransfer -sa ALPHA -da BETA -de overwrite -df cancelled.csv -predst wait.sh orders.csv | grep -o '[0-9a-f]\{48\}' | head -1)
[ ${#ID} -eq 48 ] || exit 9
fteCancelTransfer -m QM1 -a ALPHA "$ID" | grep BFGCL0196I || exit 8
fteCancelTransfer -a ALPHA 414d5120514d3120202020202020202020202020202020aa 2>/dev/null
[ $? -eq 26 ] || exit 7
[ ! -e "$IN/cancelled.csv" ] || exit 6
echo "it is cancelled"
