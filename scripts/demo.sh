#!/usr/bin/env bash
# Moves files between two agents on this host, kills one of them with -9 in the
# middle of a large file, and checks that every byte arrived. All it makes lies
# in one temporary directory, which is removed at the end; it uses no network
# but loopback and needs no rights. The exit code is 0 only if everything that
# arrived is identical to what was sent.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
ferry=$PWD/bin/ferry
[ -x "$ferry" ] || { echo "demo: bin/ferry is missing; \"make build\" makes it" >&2; exit 1; }

# Settings of the user who runs this must not change what it shows.
for name in $(compgen -e | grep '^FERRY_' || true); do unset "$name"; done
dir=$(mktemp -d "${TMPDIR:-/tmp}/ferry-demo.XXXXXX")
export FERRY_CONFIG=$dir/config.yaml XDG_STATE_HOME=$dir/state
: >"$FERRY_CONFIG"

pids=$dir/pids
: >"$pids"
cleanup() {
	local code=$? pid
	trap - EXIT INT TERM
	set +e
	while read -r pid; do kill "$pid"; done <"$pids" 2>/dev/null
	while read -r pid; do while kill -0 "$pid"; do sleep 0.05; done; done <"$pids" 2>/dev/null
	rm -rf "$dir"
	exit "$code"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# A bar is drawn where somebody looks on; otherwise there are lines only.
[ -t 1 ] || exec 2>&1

step() { printf '\n== %s\n' "$1"; }
say() { printf '%s\n' "$@"; }
show() { printf '$ %s\n' "$*" | sed "s|$dir/||g"; }
run() {
	show ferry "$@"
	"$ferry" "$@"
}
fail() {
	printf 'demo: %s\n' "$1" >&2
	for log in "$dir"/*.log; do
		printf -- '-- %s\n' "${log##*/}" >&2
		tail -n 20 "$log" >&2
	done
	exit 1
}
# until_ok COMMAND...: runs it until it succeeds, for 20 s at most.
until_ok() {
	local n
	for n in $(seq 400); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.05
	done
	fail "this did not come true within 20 s: $*"
}
# start_east: the destination agent, a process of its own.
start_east() {
	"$ferry" agent run EAST --network "$FERRY_NETWORK" --dir "$dir/east-state" --root "$dir/east" >"$dir/east.log" 2>&1 &
	east=$!
	disown # or the shell would report that it is killed
	echo "$east" >>"$pids"
	until_ok grep '^agent EAST ready' "$dir/east.log"
}

step 'Files to send'
mkdir -p "$dir/west/orders" "$dir/east"
for i in $(seq 300); do
	d=$dir/west/orders/store-$((i % 7))
	mkdir -p "$d"
	printf 'order %d\n%s\n' "$i" "$RANDOM $RANDOM $RANDOM" >"$d/order-$i.txt"
done
odd=$dir/west/orders/odd
mkdir -p "$odd/empty directory"
for name in 'two words' '-rf' 'täglich' "quote's \"end\"" 'back\slash' '*' '%41' '.hidden' $'line\nbreak' $'not UTF-8 \xff'; do
	printf '%s' "$name" >"$odd/$name" 2>/dev/null || say "(this file system does not take the name $(printf %q "$name"))"
done
: >"$odd/empty"
head -c 200000000 /dev/urandom >"$dir/west/ledger.dat"
say "$(find "$dir/west/orders" -type f -print0 | tr -dc '\0' | wc -c | tr -d ' ') small files, some with odd names, and one file of 200 MB of random bytes."

step 'One box: a copy on this host, by the same protocol, with nothing set up'
run send "$dir/west/orders/store-1/order-1.txt" "$dir/copy.txt"
cmp "$dir/west/orders/store-1/order-1.txt" "$dir/copy.txt" || fail 'the copy differs'

step 'A queue manager with coordination and agent WEST; agent EAST as a process of its own'
show ferry up --listen 127.0.0.1:0 --dir "$dir/up" --agent "WEST=$dir/west"
"$ferry" up --listen 127.0.0.1:0 --dir "$dir/up" --agent "WEST=$dir/west" >"$dir/up.log" 2>&1 &
echo $! >>"$pids"
disown
until_ok grep '^agent WEST ready' "$dir/up.log"
FERRY_NETWORK=$(sed -n 's/^queue manager .* ready at //p' "$dir/up.log")
export FERRY_NETWORK
show ferry agent run EAST --network "$FERRY_NETWORK" --dir "$dir/east-state" --root "$dir/east"
start_east
run ready
run agent ls

step 'A directory with everything in it'
run send -r WEST:orders EAST:in/ --job daily-orders
diff -r "$dir/west/orders" "$dir/east/in/orders" || fail 'the directories differ'
say 'diff finds no difference.'

step 'A large file; EAST is killed with -9 in the middle of it and started again'
# Looks at how long the temporary is, from beside the transfer.
killer() {
	local n part
	for n in $(seq 2000); do
		for part in "$dir"/east/in/.ferry-*.part; do
			[ -e "$part" ] && [ "$(wc -c <"$part" 2>/dev/null || echo 0)" -gt 80000000 ] || continue
			kill -9 "$east"
			touch "$dir/killed"
			[ ! -t 2 ] || printf '\r\033[K' >&2
			say "-- EAST is killed; $(wc -c <"$part" | tr -d ' ') bytes are in its temporary file, and nothing under the final name:"
			say "   $(ls -A "$dir/east/in" | tr '\n' ' ')"
			sleep 1
			start_east
			[ ! -t 2 ] || printf '\r\033[K' >&2
			say '-- EAST is started again on the same state directory.'
			return
		done
		sleep 0.01
	done
}
killer &
watcher=$!
run send WEST:ledger.dat EAST:in/ || fail 'the transfer failed'
wait "$watcher"
cmp "$dir/west/ledger.dat" "$dir/east/in/ledger.dat" || fail 'the large file differs'
say 'cmp finds no difference.'
[ -e "$dir/killed" ] || say '(It arrived before EAST could be killed: this host is too fast for the demonstration.)'
if ls -A "$dir/east/in" | grep '^\.ferry-'; then fail 'a temporary was left behind'; fi

step 'What is on record'
run transfer ls
id=$("$ferry" transfer ls --json --limit 1 2>/dev/null | sed -n 's/.*"id":"\([^"]*\)".*/\1/p')
recorded() { "$ferry" audit show "$id" | grep -c ' completed ' | grep -qx 2; }
until_ok recorded # agents report to coordination after the fact
run audit show "$id"
run audit verify
idle() { ! "$ferry" agent ls --json | grep -qE '"(source|destination)_running":[1-9]'; }
until_ok idle # agents report their load within a second
run agent ls

step 'Done'
say 'Everything that arrived is identical to what was sent.'
