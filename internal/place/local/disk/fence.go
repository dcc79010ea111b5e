package disk

import (
	"errors"
	"os"

	"ferry/internal/transfer"
)

// A fenced is a Disk that asks whether the agent still holds its ledger, before it creates, removes or changes a name.
// Writes to open files pass unchecked: no other instance writes to those files, even if it holds the ledger by then
// (R34).
type fenced struct {
	Disk
	may func() error
}

func (f fenced) ask() error {
	if err := f.may(); err != nil {
		return transfer.Errorf(transfer.KindBusy, "nothing is changed here any more: %w", err)
	}
	return nil
}

func (f fenced) Open(d *Dir, name string, flag int, perm os.FileMode) (File, error) {
	if flag&os.O_CREATE != 0 {
		if err := f.ask(); err != nil {
			return nil, err
		}
	}
	return f.Disk.Open(d, name, flag, perm)
}

func (f fenced) Mkdir(d *Dir, name string) error {
	if err := f.ask(); err != nil {
		return err
	}
	return f.Disk.Mkdir(d, name)
}

func (f fenced) Rename(d *Dir, from, to string, replace bool) error {
	if err := f.ask(); err != nil {
		return err
	}
	return f.Disk.Rename(d, from, to, replace)
}

func (f fenced) RenameInto(d *Dir, from string, into *Dir, to string, replace bool) error {
	if err := f.ask(); err != nil {
		return err
	}
	return f.Disk.RenameInto(d, from, into, to, replace)
}

func (f fenced) Link(d *Dir, from, to string) error {
	if err := f.ask(); err != nil {
		return err
	}
	return f.Disk.Link(d, from, to)
}

func (f fenced) Unlink(d *Dir, name string) error {
	if err := f.ask(); err != nil {
		return err
	}
	return f.Disk.Unlink(d, name)
}

// Clone calls the Clone of the disk, if it has one.
func (f fenced) Clone(to, from File) error {
	if d, ok := f.Disk.(Cloner); ok {
		return d.Clone(to, from)
	}
	return errors.ErrUnsupported
}
