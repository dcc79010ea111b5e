package audit

import (
	"slices"
	"testing"
)

// A start passes each of the last records on once, in order. The state covers all of them after a Close, and only some
// after a crash.
func TestTailsGetEachRecordOnce(t *testing.T) {
	const n, last = 60, 25
	dir := t.TempDir()
	l := open(t, dir)
	appendOK(t, l, batchOf(t, "A1", 1, 1, 1, 40))
	closeLog(t, l)
	l = open(t, dir)
	appendOK(t, l, batchOf(t, "A1", 1, 1, 41, n))
	crashed := copyDir(t, dir) // the state has 40 records
	closeLog(t, l)
	torn := copyDir(t, crashed)
	store(t, torn, recordsName, append(load(t, torn, recordsName), 0, 0, 1))
	unindexed := copyDir(t, crashed)
	remove(t, unindexed, indexName)
	for name, dir := range map[string]string{"closed": dir, "after a crash": crashed, "with a torn end": torn, "without the index": unindexed} {
		var some, all []int64
		tail := func(to *[]int64, most int64) Tail {
			return Tail{most, func(i int64, raw []byte, r *Record) {
				if want := encoded(t, recordOf("A1", 1, uint64(i)+1)); string(want) != string(raw) || r.N != uint64(i)+1 {
					t.Errorf("%s: record %d is %s", name, i, raw)
				}
				*to = append(*to, i)
			}}
		}
		l, err := openLog(dir, still, &faulty{quick: true}, tail(&some, last), tail(&all, 10*n))
		if err != nil {
			t.Fatal(err)
		}
		var want []int64
		for i := range int64(n) {
			want = append(want, i)
		}
		if !slices.Equal(all, want) || !slices.Equal(some, want[n-last:]) {
			t.Errorf("%s: all %v, the last %d %v", name, all, last, some)
		}
		if r := appendOK(t, l, batchOf(t, "A1", 1, 1, n+1, n+1)); r.Have != n+1 {
			t.Errorf("%s: %+v", name, r)
		}
		closeLog(t, l)
	}
}
