#!/bin/bash
# Runs the fuzz targets of a package, one after another: fuzz.sh DIR TIME TMP. Each target has one worker, since
# make fuzz runs as many packages at once as there are processors.
#
# At the end of its time Go's fuzzing engine can report "context deadline
# exceeded" where a worker was busy just then (golang.org/issue/56238). That is no
# finding: a finding names its input. Everything else that fails does.
set -uo pipefail
dir=$1 time=$2 tmp=$3
binary=$tmp/${dir//\//_}.test
(cd "$dir" && "${GO:-go}" test -c -fuzz=. -o "$binary" .) || exit 1
failed=0
for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | sed 's/^func //'); do
	out=$(cd "$dir" && "$binary" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" -test.parallel 1 -test.fuzzcachedir "$tmp/cache/$dir" 2>&1)
	code=$?
	printf '== %s in %s\n%s\n' "$target" "$dir" "$out"
	if [ $code -ne 0 ] && grep -qx '    context deadline exceeded' <<<"$out" && ! grep -qE 'Failing input|panic|_test.go:' <<<"$out"; then
		echo "the time was over while a worker was busy; nothing was found"
		code=0
	fi
	[ $code -eq 0 ] || failed=1
done
rm -f "$binary"
exit $failed
