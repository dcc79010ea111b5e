package protocol_test

import (
	"os"
	"sync"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/place/local/localtest"
	"ferry/internal/transfer"
)

// sendVersion submits a transfer of the present version of a file, and of another file.
func (w *world) sendVersion(name string, change func(*transfer.Request)) transfer.ID {
	w.t.Helper()
	q := transfer.Request{Items: transfer.ItemsOf(transfer.Path(name), "ok"), Dest: transfer.File("out/")}
	q.Items[0].Expected = localtest.VersionOf(w.t, w.src.files(name))
	if change != nil {
		change(&q)
	}
	return w.submit(q)
}

// replace gives a name to another file.
func (w *world) replace(name string, data []byte) {
	w.t.Helper()
	must(w.t, w.src.host().put(name+".new", data))
	must(w.t, os.Rename(w.src.files(name+".new"), w.src.files(name)))
}

// replaced expects a transfer to be successful, to have sent the file ok, and to report the other one as replaced.
func (w *world) replaced(id transfer.ID) {
	w.t.Helper()
	w.until(time.Minute, "it does not end", func() bool { return w.over(id) })
	p := w.source(id).Progress
	if p.State != transfer.Successful || p.FilesSkipped != 1 || p.FilesFailed != 0 || p.Files != 1 || p.Code != 0 {
		w.t.Errorf("it has ended as %+v", p)
	}
	for _, all := range outcomes(w, w.src, id) {
		if !all[0].OK() && all[0].Err.Kind != transfer.KindReplaced {
			w.t.Errorf("an item has ended as %+v, %v", all[0], all[0].Err)
		}
	}
	if _, err := os.Stat(w.dst.files("out/x")); !os.IsNotExist(err) {
		w.t.Errorf("x is at the destination: %v", err)
	}
}

// TestExpectedVersion sends a file that has the version that the request expects.
func TestExpectedVersion(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		files := map[string][]byte{"x": content(1, 50<<10), "ok": content(2, 10)}
		w.write(files)
		w.want(w.sendVersion("x", nil), transfer.Successful, "out", files)
		w.finish(time.Minute)
	})
}

// TestReplacedBeforeItIsRead changes a file before it is opened. It is not sent, which is no failure, and its source
// stays.
func TestReplacedBeforeItIsRead(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"replaced":    func(w *world) { w.replace("x", content(3, 50<<10)) },
		"appended to": func(w *world) { appendTo(w, "x", "more") },
		"chmod":       func(w *world) { must(w.t, os.Chmod(w.src.files("x"), 0o600)) },
		"removed":     func(w *world) { must(w.t, os.Remove(w.src.files("x"))) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{}, func(w *world) {
				w.write(map[string][]byte{"x": content(1, 50<<10), "ok": content(2, 10)})
				w.cut(true)
				id := w.sendVersion("x", func(q *transfer.Request) { q.Disposition = transfer.DispositionDelete })
				change(w)
				w.cut(false)
				w.want(id, transfer.Successful, "out", map[string][]byte{"ok": content(2, 10)})
				w.replaced(id)
				if _, err := os.Stat(w.src.files("x")); err != nil && name != "removed" {
					t.Errorf("the source: %v", err)
				}
			})
		})
	}
}

// TestReplacedWhileItIsRead replaces a file during its reading. No part of it is delivered.
func TestReplacedWhileItIsRead(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"replaced":    func(w *world) { w.replace("x", content(3, 300<<10)) },
		"appended to": func(w *world) { appendTo(w, "x", "more") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{}, func(w *world) {
				w.write(map[string][]byte{"x": content(1, 300<<10), "ok": content(2, 10)})
				var once sync.Once
				w.fates = func(p *faulty.Parcel) faulty.Handling {
					if p.Kind == faulty.Chunk && len(p.Data) > 1000 {
						once.Do(func() { change(w) })
					}
					return faulty.Handling{}
				}
				id := w.sendVersion("x", nil)
				w.want(id, transfer.Successful, "out", map[string][]byte{"ok": content(2, 10)})
				w.replaced(id)
			})
		})
	}
}

// TestReplacedWhileTheSourceIsDown replaces a partly sent file while the source is down. The next run of the source
// does not resume it.
func TestReplacedWhileTheSourceIsDown(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		w.write(map[string][]byte{"x": content(1, 10<<20), "ok": content(2, 10)})
		id := w.sendVersion("x", nil)
		w.want(id, transfer.Successful, "out", map[string][]byte{"ok": content(2, 10)})
		w.point(id, 20<<10)
		left := w.src.killed()
		w.replace("x", content(3, 10<<20))
		w.src.start(left)
		w.replaced(id)
	})
}

func appendTo(w *world, name, text string) {
	f, err := os.OpenFile(w.src.files(name), os.O_APPEND|os.O_WRONLY, 0)
	must(w.t, err)
	_, err = f.WriteString(text)
	must(w.t, err)
	must(w.t, f.Close())
}
