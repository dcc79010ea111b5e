package land

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"ferry/internal/content/record"
	"ferry/internal/place"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/place/local/intent"
	"ferry/internal/transfer"
)

// The sidecar of an existing file stays while another file of its name is refused, at whichever call the fault occurs.
func TestRefusedNameKeepsItsAttributes(t *testing.T) {
	for n := range 40 {
		for _, late := range []bool{false, true} { // the name is taken in the middle of the commit
			fault := disktest.NewFault(n, syscall.EIO)
			f, dir := newFS(t, fault)
			file, side := filepath.Join(dir, "x"), filepath.Join(dir, record.SidecarName("x"))
			take := func() {
				must(t, os.WriteFile(file, []byte("old"), 0o600))
			}
			must(t, os.WriteFile(side, []byte("old attributes"), 0o600))
			j := disktest.NewJournal(nil)
			l := lander(f, j, nil)
			if !late {
				take()
			}
			fault.Before = func(op string) {
				if late && op == "rename" && len(j.Intents) > 0 && !exists(file) {
					take()
				}
			}
			p, err := write(l, 1, "x", body(100, 1))
			if err != nil {
				continue
			}
			p.Part.(*Partial).Sidecar = &intent.Sidecar{Data: []byte("new attributes")}
			_, err = l.Commit(t.Context(), []place.Pending{p})
			fault.Heal()
			fault.Before = nil
			if in, waits := j.Intents[1]; waits {
				var v place.Verdict
				if v, j.Outcomes[1], err = l.Recover(in, f.cfg.Boot); err != nil || v == place.Taken {
					t.Fatalf("call %d: %v %v", n, v, err)
				} else if v == place.Redo {
					delete(j.Outcomes, 1)
				}
			}
			if o, known := j.Outcomes[1]; known && o.OK() && exists(file) && read(t, file) == "old" {
				t.Errorf("call %d, late %v: recorded as successful: %+v", n, late, o)
			}
			if exists(file) && read(t, file) == "old" && read(t, side) != "old attributes" {
				t.Errorf("call %d, late %v: the attributes are %q (%v)", n, late, read(t, side), err)
			}
			must(t, l.Close())
		}
	}
}

// A commit that gets no descriptor before the first sync keeps the written bytes: the item may be resumed from its safe
// points.
func TestCommitShortOfDescriptorsKeepsTemporaries(t *testing.T) {
	fault := disktest.NewFault(1, syscall.EMFILE)
	fault.Only = "open " + record.SidecarName("x")
	f, dir := newFS(t, fault)
	must(t, os.WriteFile(filepath.Join(dir, record.SidecarName("x")), []byte("old attributes"), 0o600))
	l := lander(f, disktest.NewJournal(nil), nil)
	p, err := write(l, 1, "x", body(100, 1))
	must(t, err)
	p.Part.(*Partial).Sidecar = &intent.Sidecar{Data: []byte("new attributes")}
	_, err = l.Commit(t.Context(), []place.Pending{p})
	left, _ := filepath.Glob(filepath.Join(dir, ".*.part"))
	if !transfer.KindOf(err).Waits() || errors.As(err, new(*place.SyncError)) || len(left) != 1 {
		t.Errorf("%v; %v are left", err, left)
	}
}
