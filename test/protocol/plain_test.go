package protocol_test

import (
	"testing"
	"time"

	"ferry/internal/transfer"
)

// mixed is a directory with files for every way of sending: small files that share a message, an empty one, one of
// several checkpoints, one with a hole.
func mixed() map[string][]byte {
	holed := content(9, 30<<10)
	clear(holed[8<<10 : 24<<10])
	return map[string][]byte{"in/a": content(1, 10), "in/b": content(2, 5<<10), "in/empty": {}, "in/large": content(3, 36<<10),
		"in/sub/c": content(4, 300), "in/sub/holed": holed, "in/z": content(5, 4096)}
}

// sendMixed submits the transfer of mixed, as most tests do.
func (w *world) sendMixed(change func(*transfer.Request)) transfer.ID {
	w.t.Helper()
	files := mixed()
	w.write(files)
	q := transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true}}
	if change != nil {
		change(&q)
	}
	id := w.submit(q)
	w.want(id, transfer.Successful, "out", files)
	return id
}

func TestEverythingArrives(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		w.sendMixed(nil)
		if took := w.finish(time.Minute); took > 5*time.Second {
			t.Errorf("without a fault it took %v", took)
		}
	})
}
