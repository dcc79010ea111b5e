#!/bin/sh
# Reads the limits and the transfers of an agent.
fteShowAgentDetails -v ALPHA >details.txt || exit
max=$(awk -F': *' '/Maximum Number of Running Source Transfers/ { print $2 }' details.txt)
status=$(awk '/^ *Status:/ { print $2; exit }' details.txt)
[ "$max" -gt 0 ] || exit 9
awk '/^Source Transfer States:/ { on = 1; next } /^$/ { on = 0 } on && $2 == "RecoveringTransfer" { print $1 }' details.txt >recovering.txt
[ -s recovering.txt ] && exit 8
echo "$status with $max transfers at most"
