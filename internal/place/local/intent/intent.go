package intent

import (
	"encoding/binary"

	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// An Intent is the data that Recover needs to decide an item after a crash between the ledger's COMMITTING and
// COMMITTED.
type Intent struct {
	Outcome  transfer.Outcome
	Name     transfer.Path
	Final    string // its last name, if it differs from Name because that was taken
	Temp     string // the temporary's name in its directory
	Ino, Dev uint64
	DirIno   uint64 // of the directory with the temporary
	DirDev   uint64
	Size     int64
	Sum      string
	Boot     string
	Durable  bool
	Replaces *disk.Identity // of the overwritten file, or of the directory that existed before
	Mode     uint32
	Mtime    int64
	Arrived  int64 // modification time of the temporary, if the file cannot have Mtime (see transfer.KnownTime)
	Sidecar  *Sidecar
}

// Has returns the modification time that the written file has.
func (in *Intent) Has() int64 {
	if in.Outcome.NoTime {
		return in.Arrived
	}
	return in.Mtime
}

// Format is the first byte of an intent as the ledger keeps it:
//
//	1 format  1 flags  texts: name, final, temporary, sum, boot
//	u inode  u device  u inode of the directory  u device of the directory  s size
//	u mode  s mtime  s time of arrival  with flag 2: text version of the replaced file
//	with flags 4 and 8: text sidecar; with flags 4 and 16: text sidecar that was there
//
// A text is its length (u) and its bytes; u is a varint, s a signed one.
const Format = 2

// The flags of an intent.
const (
	intentDurable  = 1
	intentReplaces = 2
	intentSidecar  = 4
	intentData     = 8
	intentWas      = 16
	intentAbove    = 32
)

func (in *Intent) flags() (f byte) {
	set := func(is bool, flag byte) {
		if is {
			f |= flag
		}
	}
	set(in.Durable, intentDurable)
	set(in.Replaces != nil, intentReplaces)
	if b := in.Sidecar; b != nil {
		set(true, intentSidecar)
		set(b.Data != nil, intentData)
		set(b.Before != nil, intentWas)
		set(b.Above, intentAbove)
	}
	return f
}

func putText[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Record returns the intent in the format of the ledger.
func (in *Intent) Record() transfer.Intent {
	b := make([]byte, 0, 224)
	f := in.flags()
	b = append(b, Format, f)
	for _, s := range []string{string(in.Name), in.Final, in.Temp, in.Sum, in.Boot} {
		b = putText(b, s)
	}

	for _, n := range []uint64{in.Ino, in.Dev, in.DirIno, in.DirDev} {
		b = binary.AppendUvarint(b, n)
	}

	b = binary.AppendVarint(b, in.Size)
	b = binary.AppendUvarint(b, uint64(in.Mode))
	b = binary.AppendVarint(b, in.Mtime)
	b = binary.AppendVarint(b, in.Arrived)
	if in.Replaces != nil {
		b = putText(b, in.Replaces.Version())
	}

	if f&intentData != 0 {
		b = putText(b, in.Sidecar.Data)
	}

	if f&intentWas != 0 {
		b = putText(b, in.Sidecar.Before)
	}
	return transfer.Intent{Outcome: in.Outcome, Place: b}
}

// Parse parses the result of record. Its error is of KindVersion.
func Parse(rec transfer.Intent) (*Intent, error) {
	r := disk.NewFields(rec.Place)
	format, f := r.Byte(), r.Byte()
	if format != Format {
		return nil, transfer.Errorf(transfer.KindVersion, "the record of %s, which was being committed, is in format %d; this version of Ferry knows %d", rec.Outcome.Path, format, Format)
	}

	in := &Intent{Outcome: rec.Outcome, Name: transfer.Path(r.Text()), Final: r.Text(), Temp: r.Text(), Sum: r.Text(), Boot: r.Text(),
		Ino: r.Uint(), Dev: r.Uint(), DirIno: r.Uint(), DirDev: r.Uint(), Size: r.Int(), Mode: uint32(r.Uint()), Mtime: r.Int(), Arrived: r.Int(), Durable: f&intentDurable != 0}
	if f&intentReplaces != 0 {
		id, err := disk.ParseVersion(transfer.Version(r.Text()))
		if err != nil {
			return nil, err
		}
		in.Replaces = &id
	}

	switch {
	case f&intentSidecar != 0:
		in.Sidecar = &Sidecar{Above: f&intentAbove != 0}
	case f&(intentData|intentWas|intentAbove) != 0:
		return nil, transfer.Errorf(transfer.KindVersion, "the record of %s, which was being committed, is damaged", rec.Outcome.Path)
	}

	if f&intentData != 0 {
		in.Sidecar.Data = append([]byte{}, r.Bytes(r.Uint())...)
	}

	if f&intentWas != 0 {
		in.Sidecar.Before = append([]byte{}, r.Bytes(r.Uint())...)
	}

	if !r.Done() {
		return nil, transfer.Errorf(transfer.KindVersion, "the record of %s, which was being committed, is damaged", rec.Outcome.Path)
	}
	return in, nil
}

// A Sidecar is the sidecar that an item is to have. Without Data the item is to have none.
type Sidecar struct {
	Data   []byte
	Above  bool   // it belongs to the directory that has the item, and applies to all its files
	Before []byte // the sidecar before, put back if the item does not get its name; nil: none
}
