#!/bin/sh
# Subscribes to the transfer log, and takes the result and the files of one transfer.
ferry audit xml >log.xml 2>subscriber.txt &
pid=$!
n=0
until grep -q '>completed</action>' log.xml; do
	n=$((n + 1))
	[ $n -lt 60 ] || { kill $pid; exit 2; }
	fteCreateTransfer -w -jn SUBSCRIBED -md region=north -sa ALPHA -da BETA -de overwrite -df subscribed.csv orders.csv >sent.txt || exit
	sleep 1
done
kill $pid
wait $pid 2>/dev/null
grep -q '<name>SUBSCRIBED</name>' log.xml || exit 9
grep -q '<metaData key="region">north</metaData>' log.xml || exit 8
grep -q 'method="MD5">[0-9a-f]\{32\}<' log.xml || exit 7
sed -n 's/.*<file [^>]*>\([^<]*orders.csv\)<.*/\1/p' log.xml | head -1
awk -F'"' '/<status resultCode=/ { codes[$2]++ } END { for (c in codes) print "result code " c }' log.xml | grep -x 'result code 0'
