#!/bin/sh
# Tells about agents that are neither ready nor active.
agents() {
	for p in 'A*' 'B*'; do fteListAgents -p QMCOORD "$p" 2>/dev/null | tail -n +4; done
}
bad=$(agents | awk '$3 != "READY" && $3 != "ACTIVE" { print $1 }')
[ -z "$bad" ] || { echo "agents to look at: $bad" >&2; exit 2; }
agents | awk '{ print $1 }' | sort | tr '\n' ' '
