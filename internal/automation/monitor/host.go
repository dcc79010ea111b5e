package monitor

import (
	"context"
	"io"

	"ferry/internal/automation/duty"
	"ferry/internal/content/digest"
	"ferry/internal/content/textfile"
	"ferry/internal/place"
	"ferry/internal/transfer"
)

// A host gives access to the files and the transfers of the agent, with the rights that a principal has when it is
// asked.
type host struct {
	services  *duty.Services
	principal string
}

func (h host) source(of transfer.Place) place.Source {
	return place.As(h.services.Place, h.principal).For(of, h.services.Permit(h.principal))
}

// directories returns the files of the agent as directories that can be read again and again.
func (h host) directories() (place.Scanner, error) {
	from, ok := h.source(transfer.Files).(place.Scanner)
	if !ok {
		return nil, transfer.Errorf(transfer.KindNotBuilt, "the directories of agent %s cannot be watched", h.services.Agent)
	}
	return from, nil
}

// over reports whether a transfer has ended. A transfer that the agent has forgotten has ended.
func (h host) over(id transfer.ID) (bool, error) {
	t, err := h.services.Status(id)
	if transfer.KindOf(err) == transfer.KindNotFound {
		return true, nil
	}
	return err == nil && t.State.Final(), err
}

// read makes fn read a file in a version. If the file is another version when it is opened, or has changed when fn has
// ended, the error is of kind Changing.
func (h host) read(p transfer.Path, v transfer.Version, fn func(io.Reader) error) error {
	files := h.source(transfer.Files).Files(transfer.File(p))
	defer files.Close()
	in, err := files.Open(p, false)
	if err != nil {
		return err
	}
	defer in.Close()
	if in.Facts().Version != v {
		return transfer.Errorf(transfer.KindChanging, "the file %s has changed since its directory was read", p)
	}
	if err := fn(in); err != nil {
		return err
	}
	return in.Unchanged()
}

// triggerFile reads a trigger file in the state that the poll of its directory has seen. If it has changed, the next
// poll handles it.
func (h host) triggerFile(f *file) (content []byte, err error) {
	return content, h.read(f.Path, f.version, func(in io.Reader) error {
		if f.Size > textfile.Room(maxTriggerFile) {
			return transfer.Errorf(transfer.KindTooLarge, "trigger file %s has %d bytes; the limit is %d", f.Path, f.Size, maxTriggerFile)
		}
		content, err = io.ReadAll(io.LimitReader(in, textfile.Room(maxTriggerFile)+1))
		return err
	})
}

// digest digests a file in a version.
func (h host) digest(ctx context.Context, p transfer.Path, v transfer.Version, m digest.Method) (string, error) {
	sum := m.New()
	err := h.read(p, v, func(in io.Reader) error {
		_, err := io.CopyBuffer(sum, stoppable{ctx, in}, make([]byte, 256<<10))
		return err
	})
	return m.Sum(sum), err
}

// stoppable reads until ctx ends.
type stoppable struct {
	ctx context.Context
	in  io.Reader
}

func (r stoppable) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.in.Read(b)
}
