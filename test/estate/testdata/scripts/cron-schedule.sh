#!/bin/sh -e
# Defines the transfers of each night, shows them and ends them.
fteCreateTransfer -ss 2090-06-01T02:00 -tb UTC -oi days -of 1 -oc 30 -jn NIGHTS -sa ALPHA -da BETA -dd nights orders.csv | grep -q 'request ID is'
fteListScheduledTransfers 'ALPHA' | tee nights.txt | grep -A5 'Job Name: *NIGHTS' >/dev/null
ID=$(awk '/^Schedule Identifier:/ { id = $NF } /^Job Name: *NIGHTS/ { print id }' nights.txt)
grep -q 'Next Transfer: *2090-06-01T02:00+0000' nights.txt
fteDeleteScheduledTransfer -agentName ALPHA "$ID"
! fteListScheduledTransfers ALPHA | grep -q NIGHTS
echo "no night is left"
