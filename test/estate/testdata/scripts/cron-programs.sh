#!/bin/sh
# Runs a program behind the transfer. Its result code is a warning up to 4.
fteCreateTransfer -w -sa ALPHA -da BETA -de overwrite -df load/in.csv -postdst 'load.sh(4),1,1,<5' orders.csv || exit
fteCreateTransfer -w -sa ALPHA -da BETA -de overwrite -df load/in.csv -postdst 'load.sh(8),0,0,<5' orders.csv 2>err
[ $? -eq 20 ] || exit 9
grep -q 'load.sh ended with the exit code 8' err || exit 8
echo "the load counts"
