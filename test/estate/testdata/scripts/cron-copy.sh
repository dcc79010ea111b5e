#!/bin/sh
# Copies the orders of the day, and tries again if the first try fails.
set -e
n=0
while :; do
	set +e
	fteCreateTransfer -w 120 -t binary -sa ALPHA -sm QM1 -da BETA -dm QM1 -jn ORDERS -de overwrite -df orders/copy.csv orders.csv >copy.log 2>&1
	rc=$?
	set -e
	[ $rc -eq 0 ] && break
	n=$((n + 1))
	[ $n -lt 3 ] || { echo "orders: result code $rc" >&2; exit $rc; }
done
grep -q BFGRP0032I copy.log
ID=$(sed -n 's/.*request ID is: *\([0-9a-f]\{48\}\).*/\1/p' copy.log)
echo "orders copied as ${ID}"
