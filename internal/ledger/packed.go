package ledger

import (
	"encoding/binary"
	"encoding/json"
	"errors"

	"ferry/internal/transfer"
)

// A packed value is what is kept of many items in one record:
//
//	1 version (2)  1 what: 1 intents, 2 outcomes
//	the number of items, then of each its number: the first as it is, others as
//	the distance from the one before, which is at least 1
//	of each item, in that order:
//	  flags: bit 0: something that is rare follows at the end; bit 1: durable
//	  of its outcome: type, size, path, source, digest, the source's digest,
//	  and of the source's identity device, inode, size, mtime, ctime
//	  of an intent besides: version, name, temporary, inode, device, inode and
//	  device of its directory, size, sum, boot, mode, mtime
//	  with bit 0: a length, and a JSON object with all other fields
//
// Numbers are varints, those that have a like in the item before as the
// difference from it, zig-zag. A text is the number of bytes that it shares with
// its like, the length of the rest, and the rest: neighbours differ in few bytes.
// Its like is the same field of the item before, but for the source's digest and
// the sum, whose like is the digest.
const (
	packedVersion = 2

	packedIntents  = 1
	packedOutcomes = 2

	flagExtra   = 1
	flagDurable = 2

	maxPacked     = 1024    // items in one record
	maxPackedText = 1 << 14 // bytes of a text
)

var errPacked = errors.New("it is no record of items that this version knows")

// A packer writes items one behind the other.
type packer struct {
	b    []byte
	prev transfer.Intent
}

func (p *packer) number(v, like uint64) {
	d := v - like
	p.b = binary.AppendUvarint(p.b, d<<1^uint64(int64(d)>>63))
}

func (p *packer) text(s, like string) {
	n := 0
	for n < len(s) && n < len(like) && s[n] == like[n] {
		n++
	}
	p.b = binary.AppendUvarint(p.b, uint64(n))
	p.b = binary.AppendUvarint(p.b, uint64(len(s)-n))
	p.b = append(p.b, s[n:]...)
}

// pack makes a value of intents, or of outcomes that stand in intents. The
// numbers of the items ascend.
func pack(what byte, items []transfer.Intent) ([]byte, error) {
	p := &packer{b: make([]byte, 0, 64+96*len(items))}
	p.b = append(p.b, packedVersion, what)
	p.b = binary.AppendUvarint(p.b, uint64(len(items)))
	last := uint64(0)
	for n := range items {
		p.b = binary.AppendUvarint(p.b, items[n].Outcome.Item-last)
		last = items[n].Outcome.Item
	}
	for n := range items {
		if err := p.item(what, &items[n]); err != nil {
			return nil, err
		}
	}
	return p.b, nil
}

func (p *packer) item(what byte, in *transfer.Intent) error {
	extra, err := rare(what, in)
	if err != nil {
		return err
	}
	flags := uint64(0)
	if extra != nil {
		flags |= flagExtra
	}
	if in.Durable {
		flags |= flagDurable
	}
	p.b = binary.AppendUvarint(p.b, flags)
	o, like := &in.Outcome, &p.prev.Outcome
	p.number(uint64(o.Type), uint64(like.Type))
	p.number(uint64(o.Size), uint64(like.Size))
	p.text(string(o.Path), string(like.Path))
	p.text(string(o.Source), string(like.Source))
	p.text(o.Digest, like.Digest)
	p.text(o.SrcSum, o.Digest)
	id, was := &o.Identity, &like.Identity
	p.number(id.Dev, was.Dev)
	p.number(id.Ino, was.Ino)
	p.number(uint64(id.Size), uint64(was.Size))
	p.number(uint64(id.Mtime), uint64(was.Mtime))
	p.number(uint64(id.Ctime), uint64(was.Ctime))
	if what == packedIntents {
		p.number(uint64(in.V), uint64(p.prev.V))
		p.text(string(in.Name), string(p.prev.Name))
		p.text(in.Temp, p.prev.Temp)
		p.number(in.Ino, p.prev.Ino)
		p.number(in.Dev, p.prev.Dev)
		p.number(in.DirIno, p.prev.DirIno)
		p.number(in.DirDev, p.prev.DirDev)
		p.number(uint64(in.Size), uint64(p.prev.Size))
		p.text(in.Sum, o.Digest)
		p.text(in.Boot, p.prev.Boot)
		p.number(uint64(in.Mode), uint64(p.prev.Mode))
		p.number(uint64(in.Mtime), uint64(p.prev.Mtime))
	}
	if extra != nil {
		p.b = binary.AppendUvarint(p.b, uint64(len(extra)))
		p.b = append(p.b, extra...)
	}
	p.prev = *in
	return nil
}

// rare are the fields that have no place of their own, as JSON; nil where none is
// set. What is added to the types later is among them by itself.
func rare(what byte, in *transfer.Intent) ([]byte, error) {
	o := in.Outcome
	o.Item, o.Type, o.Size, o.Path, o.Source, o.Digest, o.SrcSum, o.Identity = 0, 0, 0, "", "", "", "", transfer.Identity{}
	if what == packedOutcomes {
		if o == (transfer.Outcome{}) {
			return nil, nil
		}
		return json.Marshal(&o)
	}
	k := *in
	k.Outcome, k.V, k.Name, k.Temp, k.Ino, k.Dev, k.DirIno, k.DirDev, k.Size, k.Sum, k.Boot, k.Durable, k.Mode, k.Mtime = o, 0, "", "", 0, 0, 0, 0, 0, "", "", false, 0, 0
	if k == (transfer.Intent{}) {
		return nil, nil
	}
	return json.Marshal(&k)
}

// An unpacker reads what a packer has written. After an error it gives nothing
// any more.
type unpacker struct {
	b    []byte
	bad  bool
	prev transfer.Intent
}

func (u *unpacker) uvarint() uint64 {
	v, n := binary.Uvarint(u.b)
	if n <= 0 {
		u.bad, u.b = true, nil
		return 0
	}
	u.b = u.b[n:]
	return v
}

func (u *unpacker) number(like uint64) uint64 {
	z := u.uvarint()
	return like + (z>>1 ^ -(z & 1))
}

func (u *unpacker) bytes(n uint64) []byte {
	if n > uint64(len(u.b)) {
		u.bad, u.b = true, nil
		return nil
	}
	b := u.b[:n]
	u.b = u.b[n:]
	return b
}

func (u *unpacker) text(like string) string {
	n := u.uvarint()
	rest := u.bytes(u.uvarint())
	if n > uint64(len(like)) || n+uint64(len(rest)) > maxPackedText {
		u.bad, u.b = true, nil
		return ""
	}
	if len(rest) == 0 && n == uint64(len(like)) {
		return like
	}
	return like[:n] + string(rest)
}

// head reads what kind of value it is and which items it has.
func (u *unpacker) head() (what byte, items []uint64, err error) {
	if len(u.b) < 2 || u.b[0] != packedVersion || u.b[1] != packedIntents && u.b[1] != packedOutcomes {
		return 0, nil, errPacked
	}
	what, u.b = u.b[1], u.b[2:]
	count := u.uvarint()
	if count == 0 || count > maxPacked {
		return 0, nil, errPacked
	}
	items = make([]uint64, count)
	for n := range items {
		d := u.uvarint()
		if n > 0 {
			if d == 0 || items[n-1]+d < d {
				return 0, nil, errPacked
			}
			d += items[n-1]
		}
		items[n] = d
	}
	if u.bad {
		return 0, nil, errPacked
	}
	return what, items, nil
}

// packedItems are the numbers of the items in a value.
func packedItems(b []byte) ([]uint64, error) {
	_, items, err := (&unpacker{b: b}).head()
	return items, err
}

// unpack reads a value.
func unpack(b []byte) (what byte, ins []transfer.Intent, err error) {
	u := &unpacker{b: b}
	what, items, err := u.head()
	if err != nil {
		return 0, nil, err
	}
	ins = make([]transfer.Intent, len(items))
	for n := range ins {
		if err := u.item(what, &ins[n]); err != nil {
			return 0, nil, err
		}
		ins[n].Outcome.Item = items[n]
	}
	if u.bad || len(u.b) > 0 {
		return 0, nil, errPacked
	}
	return what, ins, nil
}

func (u *unpacker) item(what byte, in *transfer.Intent) error {
	flags := u.uvarint()
	if flags&^(flagExtra|flagDurable) != 0 || what == packedOutcomes && flags&flagDurable != 0 {
		return errPacked
	}
	o, like := &in.Outcome, &u.prev.Outcome
	o.Type = transfer.ItemType(u.number(uint64(like.Type)))
	o.Size = int64(u.number(uint64(like.Size)))
	o.Path = transfer.Path(u.text(string(like.Path)))
	o.Source = transfer.Path(u.text(string(like.Source)))
	o.Digest = u.text(like.Digest)
	o.SrcSum = u.text(o.Digest)
	id, was := &o.Identity, &like.Identity
	id.Dev = u.number(was.Dev)
	id.Ino = u.number(was.Ino)
	id.Size = int64(u.number(uint64(was.Size)))
	id.Mtime = int64(u.number(uint64(was.Mtime)))
	id.Ctime = int64(u.number(uint64(was.Ctime)))
	if what == packedIntents {
		in.Durable = flags&flagDurable != 0
		in.V = int(u.number(uint64(u.prev.V)))
		in.Name = transfer.Path(u.text(string(u.prev.Name)))
		in.Temp = u.text(u.prev.Temp)
		in.Ino = u.number(u.prev.Ino)
		in.Dev = u.number(u.prev.Dev)
		in.DirIno = u.number(u.prev.DirIno)
		in.DirDev = u.number(u.prev.DirDev)
		in.Size = int64(u.number(uint64(u.prev.Size)))
		in.Sum = u.text(o.Digest)
		in.Boot = u.text(u.prev.Boot)
		in.Mode = uint32(u.number(uint64(u.prev.Mode)))
		in.Mtime = int64(u.number(uint64(u.prev.Mtime)))
	}
	if u.bad {
		return errPacked
	}
	u.prev = *in
	if flags&flagExtra != 0 {
		return u.extra(what, in)
	}
	return nil
}

// extra takes in the fields that have no place of their own.
func (u *unpacker) extra(what byte, in *transfer.Intent) error {
	b := u.bytes(u.uvarint())
	if u.bad {
		return errPacked
	}
	var more transfer.Intent
	target := any(&more)
	if what == packedOutcomes {
		target = &more.Outcome
	}
	if err := json.Unmarshal(b, target); err != nil {
		return err
	}
	k, o, m := *in, in.Outcome, more.Outcome
	m.Item, m.Type, m.Size, m.Path, m.Source, m.Digest, m.SrcSum, m.Identity = o.Item, o.Type, o.Size, o.Path, o.Source, o.Digest, o.SrcSum, o.Identity
	more.V, more.Name, more.Temp, more.Ino, more.Dev, more.DirIno, more.DirDev, more.Size = k.V, k.Name, k.Temp, k.Ino, k.Dev, k.DirIno, k.DirDev, k.Size
	more.Sum, more.Boot, more.Durable, more.Mode, more.Mtime = k.Sum, k.Boot, k.Durable, k.Mode, k.Mtime
	more.Outcome = m
	*in = more
	return nil
}
