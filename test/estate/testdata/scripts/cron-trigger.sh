#!/bin/sh
# Sends the stock once its flag is there.
fteCreateTransfer -w -tr file=exist,flags/stock.go -tl yes -sa ALPHA -da BETA -df flags/stock.csv stock.csv 2>err
[ $? -eq 42 ] || exit 9
mkdir -p "$OUT/flags"
touch "$OUT/flags/stock.go"
fteCreateTransfer -w -tr file=exist,flags/stock.go -tl -sa ALPHA -da BETA -df flags/stock.csv stock.csv || exit
fteCreateTransfer -w -tr 'filesize>=1MB,stock.csv' -sa ALPHA -da BETA -df flags/large.csv stock.csv 2>>err
[ $? -eq 42 ] || exit 8
echo "the flag counts"
