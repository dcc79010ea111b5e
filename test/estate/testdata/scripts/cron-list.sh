#!/bin/sh
# Sends each file of a list on its own, and counts those that did not arrive.
printf 'orders.csv\nabsent.csv\nstock.csv\n' >list
failed=0
while read -r f; do
	fteCreateTransfer -w -sa ALPHA -da BETA -de overwrite -df "list/$f" "$f" >>list.log 2>&1 || failed=$((failed + 1))
done <list
echo "$failed of $(wc -l <list) failed"
grep -c BFGRP0034I list.log
[ $failed -eq 1 ]
