package land

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ferry/internal/place"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// A setClock is the host's clock, set forward.
type setClock struct {
	clock.Clock
	ahead atomic.Int64
}

func (c *setClock) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.ahead.Load())) }

// An obstacle makes the transfer wait until its patience is over. From then on it fails files, other ones at once. When
// the obstacle is gone, files land, and no temporary is left.
func TestObstacles(t *testing.T) {
	for _, tt := range []struct {
		name, call string
		err        error
		text       string
	}{
		{"a file system that is read-only", "open .ferry", syscall.EROFS, "x cannot be written: the file system is read-only"},
		{"a directory to be made on one", "mkdir", syscall.EROFS, "d/x cannot be written: the file system is read-only"},
		{"a mount point at the name", "rename", syscall.EBUSY, "x cannot be replaced: it is a mount point, or in use"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fault := disktest.NewFault(0, tt.err)
			fault.Only = tt.call
			f, dir := newFS(t, fault)
			now := &setClock{Clock: clock.System}
			f.cfg.Clock = now
			name := "x"
			if tt.call == "mkdir" {
				name = "d/x"
			}
			land := func(id transfer.ID, item uint64, name string) (outcome *transfer.Error, wait error) {
				l := lander(f, disktest.NewJournal(nil), func(cfg *place.LandConfig) {
					cfg.Transfer, cfg.IfExists, cfg.Patience = id, transfer.IfExistsOverwrite, time.Minute
				})
				defer l.Close()
				p, err := write(l, item, name, body(10, 1))
				if err != nil {
					if transfer.KindOf(err).Waits() {
						return nil, err
					}
					return transfer.AsError(err), nil
				}
				done, err := l.Commit(t.Context(), []place.Pending{p})
				if err != nil {
					return nil, err
				}
				return done[0].Err, nil
			}
			waits := func(name string) {
				t.Helper()
				_, err := land(testID, 1, name)
				wantKind(t, err, transfer.KindBusy)
				if !strings.Contains(err.Error(), tt.text) || !strings.Contains(err.Error(), "for 1m0s, and fails then") {
					t.Error(err)
				}
			}

			fault.N, fault.FailAt, fault.Sticky = 0, 1, true
			waits(name)
			now.ahead.Store(int64(59 * time.Second))
			waits(name)
			now.ahead.Store(int64(61 * time.Second))
			for item, name := range []string{name, name + "2"} {
				err, wait := land(testID, uint64(item+1), name)
				if wait != nil || err == nil || err.Kind != transfer.KindUnwritable {
					t.Fatalf("%s: %v, %v", name, err, wait)
				}
			}
			other := transfer.NewID(time.UnixMilli(1_900_000_000_000))
			if _, err := land(other, 1, name); transfer.KindOf(err) != transfer.KindBusy {
				t.Errorf("another transfer does not wait: %v", err)
			}
			fault.Heal()
			if err, wait := land(other, 1, name); err != nil || wait != nil || !exists(filepath.Join(dir, name)) {
				t.Errorf("when it is gone: %v, %v", err, wait)
			}
			if left := temporaries(t, dir); tt.err == syscall.EROFS && left != nil {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// The patience starts again for a file system that was read-only, became writable and is read-only again.
func TestAnObstacleThatCameBack(t *testing.T) {
	fault := disktest.NewFault(1, syscall.EROFS)
	fault.Only, fault.Sticky = "open .ferry", true
	f, _ := newFS(t, fault)
	now := &setClock{Clock: clock.System}
	f.cfg.Clock = now
	l := lander(f, disktest.NewJournal(nil), nil)
	_, err := l.Create(1, "x", 10, 512)
	wantKind(t, err, transfer.KindBusy)
	fault.Heal()
	p, err := l.Create(1, "x", 10, 512)
	must(t, err)
	must(t, p.Discard())
	now.ahead.Store(int64(time.Hour))
	fault.N, fault.FailAt = 0, 1
	_, err = l.Create(1, "x", 10, 512)
	wantKind(t, err, transfer.KindBusy)
	now.ahead.Store(int64(time.Hour + obstaclePatience))
	_, err = l.Create(1, "x", 10, 512)
	wantKind(t, err, transfer.KindUnwritable)
}

// TestUnrelatedObstacles: each obstacle has its own time. The obstacle of a path ends when a file gets the path's name.
// The obstacle of a file system ends when a temporary is made there. Each also ends when it is not met for a long time.
func TestUnrelatedObstacles(t *testing.T) {
	fault := disktest.NewFault(1, syscall.EBUSY)
	fault.Only, fault.Sticky = "rename", true
	f, _ := newFS(t, fault)
	now := &setClock{Clock: clock.System}
	f.cfg.Clock = now
	l := lander(f, disktest.NewJournal(nil), func(cfg *place.LandConfig) { cfg.IfExists = transfer.IfExistsOverwrite })
	land := func(item uint64, name string) error {
		p, err := write(l, item, name, body(10, 1))
		must(t, err)
		done, err := l.Commit(t.Context(), []place.Pending{p})
		if err == nil && done[0].Err != nil {
			err = done[0].Err
		}
		return err
	}
	wantKind(t, land(1, "x"), transfer.KindBusy)
	wantKind(t, land(2, "y"), transfer.KindBusy)
	now.ahead.Store(int64(5 * time.Minute))
	fault.Heal()
	must(t, land(1, "x"))
	now.ahead.Store(int64(9 * time.Minute))
	fault.N, fault.FailAt = 0, 1
	wantKind(t, land(2, "y"), transfer.KindBusy)
	now.ahead.Store(int64(9*time.Minute + 30*time.Second))
	fault.Heal()
	must(t, land(2, "y"))

	now.ahead.Store(int64(11 * time.Minute))
	fault.N, fault.FailAt = 0, 1
	wantKind(t, land(3, "x"), transfer.KindBusy) // another mount point
	now.ahead.Store(int64(11*time.Minute + obstaclePatience))
	wantKind(t, land(3, "x"), transfer.KindUnwritable)
	now.ahead.Store(int64(12*time.Minute + obstaclePatience))
	wantKind(t, land(4, "z"), transfer.KindUnwritable) // at once, as long as x is one
	now.ahead.Store(int64(5 * time.Hour))
	wantKind(t, land(5, "x"), transfer.KindBusy)

	fault.Only, fault.Err = "open .ferry", syscall.EROFS
	fault.N, fault.FailAt = 0, 1
	_, err := l.Create(6, "w", 10, 512)
	wantKind(t, err, transfer.KindBusy)
	f.obstacles.gone(obstacle{of: testID, device: 1 << 60}) // another file system takes files
	now.ahead.Store(int64(5*time.Hour + obstaclePatience))
	_, err = l.Create(6, "w", 10, 512)
	wantKind(t, err, transfer.KindUnwritable)

	now.ahead.Store(int64(9 * time.Hour))
	fault.Heal()
	fault.Only, fault.Err, fault.N, fault.FailAt = "rename", syscall.EBUSY, 0, 1
	wantKind(t, land(7, "v"), transfer.KindBusy)
	if len(f.obstacles.met) != 1 {
		t.Errorf("obstacles of long ago are kept: %v", f.obstacles.met)
	}
}
