#!/bin/sh
# Waits for an agent after its start.
tries=0
until ftePingAgent -m QM1 ALPHA -w 30 2>/dev/null | grep -q 'BFGCL0213I.*responded to ping'; do
	tries=$((tries + 1))
	[ $tries -lt 10 ] || exit 2
	sleep 1
done
ftePingAgent -w 1 NOAGENT >/dev/null 2>&1
[ $? -eq 2 ] || exit 9
echo "the agent is there"
