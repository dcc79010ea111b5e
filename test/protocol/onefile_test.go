package protocol_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"ferry/internal/transfer"
)

// TestTwoItemsOfOneFile sends two directories that are one at the destination, by a symbolic link. If two items have
// the same file there, the second one fails and keeps its source. This holds in the group of the first, in later
// groups, and after crashes of the destination.
func TestTwoItemsOfOneFile(t *testing.T) {
	const each = 300 // more than a group
	for _, crashes := range []int{0, 1, 3} {
		for _, ifExists := range []string{transfer.IfExistsOverwrite, transfer.IfExistsAppend} {
			t.Run(fmt.Sprintf("%s with %d crashes", ifExists, crashes), func(t *testing.T) {
				bubble(t, setup{wake: true}, func(w *world) {
					must(t, os.MkdirAll(w.dst.files("out/in/a"), 0o755))
					must(t, os.Symlink("a", w.dst.files("out/in/b")))
					files := map[string][]byte{}
					for n := range each {
						files[fmt.Sprintf("in/a/%03d", n)] = fmt.Appendf(nil, "A%d", n)
						files[fmt.Sprintf("in/b/%03d", n)] = fmt.Appendf(nil, "B%d", n)
					}
					w.write(files)
					renames, died := 0, 0
					w.change(func(w *world) {
						w.crash = func(n *node, op, _ string, _ int, after bool) bool {
							if n != w.dst || op != "rename" || !after {
								return false
							}
							if renames++; died < crashes && renames == (died+1)*90 {
								died++
								return true
							}
							return false
						}
					})
					id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"),
						Options: transfer.Options{Recursive: true, Disposition: transfer.DispositionDelete, IfExists: ifExists}})
					w.until(10*time.Minute, "it does not end", func() bool { return w.over(id) })
					s := w.source(id)
					if s.State != transfer.Partial || s.Progress.Counts.FilesFailed != each || died != crashes {
						t.Errorf("it ended %s after %d crashes, with %+v", s.State, died, s.Progress.Counts)
					}
					for n := range each {
						a, b := fmt.Sprintf("in/a/%03d", n), fmt.Sprintf("in/b/%03d", n)
						got, err := os.ReadFile(w.dst.files("out/" + a))
						if err != nil || !bytes.Equal(got, files[a]) {
							t.Errorf("%s has %q, %v", a, got, err)
						}
						if _, err := os.Lstat(w.src.files(b)); err != nil {
							t.Errorf("the source of a failed item: %v", err)
						}
					}
				})
			})
		}
	}
}
