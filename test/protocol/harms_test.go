package protocol_test

import (
	"bytes"
	"encoding/binary"

	"ferry/internal/faulty"
	"ferry/internal/wire"
)

// A messageDamage is one way to damage a message. It returns false if it does not apply to the message.
type messageDamage struct {
	name string
	bad  bool // it counts against the item that is being written
	do   func(v *messageDamager, p *faulty.Parcel, h header) (faulty.Handling, bool)
}

// changed returns a handling that changes the message.
func changed(do func(m []byte) []byte) (faulty.Handling, bool) {
	return faulty.Handling{Damage: do}, true
}

// also returns a handling that adds another message.
func also(p *faulty.Parcel, m []byte) (faulty.Handling, bool) {
	twin := *p
	twin.Data = m
	return faulty.Handling{Also: []faulty.Parcel{twin}}, true
}

// mild are the harms that count against no item.
var mild = []messageDamage{
	{"swapped with the next", false, func(*messageDamager, *faulty.Parcel, header) (faulty.Handling, bool) {
		return faulty.Handling{Swap: true}, true
	}},
	{"sent twice", false, func(*messageDamager, *faulty.Parcel, header) (faulty.Handling, bool) {
		return faulty.Handling{Copies: 1}, true
	}},
	{"lost", false, func(*messageDamager, *faulty.Parcel, header) (faulty.Handling, bool) {
		return faulty.Handling{Drop: true}, true
	}},
	{"an earlier one of the epoch comes again", false, func(v *messageDamager, p *faulty.Parcel, h header) (faulty.Handling, bool) {
		if h.Seq < 2 {
			return faulty.Handling{}, false
		}
		h.Seq = 1 + uint64(v.s.n(int(h.Seq-1)))
		return also(p, v.sound[h])
	}},
	{"one of an earlier epoch comes", false, func(v *messageDamager, p *faulty.Parcel, h header) (faulty.Handling, bool) {
		old := v.begun[h.Transfer]
		pick := old[v.s.n(len(old))]
		if pick.Epoch == h.Epoch {
			return faulty.Handling{}, false
		}
		return also(p, v.sound[pick])
	}},
	{"one of another transfer comes in its place", false, func(v *messageDamager, p *faulty.Parcel, h header) (faulty.Handling, bool) {
		for id, all := range v.begun {
			if id != h.Transfer && len(all) > 0 {
				m := bytes.Clone(v.sound[all[v.s.n(len(all))]])
				return changed(func([]byte) []byte { return m })
			}
		}
		return faulty.Handling{}, false
	}},
	{"a stranger sends it, too", false, func(v *messageDamager, p *faulty.Parcel, h header) (faulty.Handling, bool) {
		twin := *p
		twin.From, twin.Data = "MALLORY", bytes.Clone(p.Data)
		return faulty.Handling{Also: []faulty.Parcel{twin}}, true
	}},
	{"another epoch under a right hash", false, func(v *messageDamager, p *faulty.Parcel, h header) (faulty.Handling, bool) {
		epoch := []uint32{h.Epoch - 1, 0, h.Epoch + 50, 1 << 31, 1<<32 - 1}[v.s.n(5)] // none that is to come
		return changed(func(m []byte) []byte { binary.BigEndian.PutUint32(m[18:], epoch); return rehash(m) })
	}},
	{"a later sequence under a right hash", false, func(v *messageDamager, p *faulty.Parcel, h header) (faulty.Handling, bool) {
		seq := h.Seq + 1 + uint64(v.s.n(3))
		return changed(func(m []byte) []byte { binary.BigEndian.PutUint64(m[22:], seq); return rehash(m) })
	}},
	{"an earlier sequence under a right hash", false, func(v *messageDamager, p *faulty.Parcel, h header) (faulty.Handling, bool) {
		seq := uint64(v.s.n(int(v.held[header{Transfer: h.Transfer, Epoch: h.Epoch}]) + 1)) // that the destination has
		return changed(func(m []byte) []byte { binary.BigEndian.PutUint64(m[22:], seq); return rehash(m) })
	}},
}

// messageDamages are all ways.
var messageDamages = append([]messageDamage{
	{"a bit flipped", true, func(v *messageDamager, p *faulty.Parcel, _ header) (faulty.Handling, bool) {
		at, bit := v.s.n(len(p.Data)), byte(1)<<v.s.n(8)
		return changed(func(m []byte) []byte { m[at] ^= bit; return m })
	}},
	{"many bits flipped", true, func(v *messageDamager, p *faulty.Parcel, _ header) (faulty.Handling, bool) {
		for range 2 + v.s.n(20) {
			p.Data[v.s.n(len(p.Data))] ^= 1 << v.s.n(8)
		}
		return changed(func(m []byte) []byte { return m })
	}},
	{"cut", true, func(v *messageDamager, p *faulty.Parcel, _ header) (faulty.Handling, bool) {
		n := v.s.n(len(p.Data))
		return changed(func(m []byte) []byte { return m[:n] })
	}},
	{"longer", true, func(v *messageDamager, p *faulty.Parcel, _ header) (faulty.Handling, bool) {
		n := 1 + v.s.n(100)
		return changed(func(m []byte) []byte { return append(m, make([]byte, n)...) })
	}},
	{"zeroed in part", true, func(v *messageDamager, p *faulty.Parcel, _ header) (faulty.Handling, bool) {
		at := v.s.n(len(p.Data))
		return changed(func(m []byte) []byte { clear(m[at:min(len(m), at+200)]); return m })
	}},
	{"its header before the body of another", true, func(v *messageDamager, p *faulty.Parcel, h header) (faulty.Handling, bool) {
		all := v.begun[h.Transfer]
		other := v.sound[all[v.s.n(len(all))]]
		if bytes.Equal(other[wire.HeaderSize:], p.Data[wire.HeaderSize:]) {
			return faulty.Handling{}, false
		}
		return changed(func(m []byte) []byte { return append(m[:wire.HeaderSize:wire.HeaderSize], other[wire.HeaderSize:]...) })
	}},
	{"another offset under a right hash", true, func(v *messageDamager, p *faulty.Parcel, _ header) (faulty.Handling, bool) {
		all := dataAt(p.Data)
		if len(all) == 0 {
			return faulty.Handling{}, false
		}
		frame := all[v.s.n(len(all))].frame
		by := int64([]int{1, -1, 4096, -4096, 1 << 40}[v.s.n(5)])
		return changed(func(m []byte) []byte { return shifted(m, frame, by) })
	}},
	{"other bytes under a right hash", false, func(v *messageDamager, p *faulty.Parcel, _ header) (faulty.Handling, bool) {
		all := dataAt(p.Data)
		if len(all) == 0 || !v.s.one(4) {
			return faulty.Handling{}, false
		}
		v.forged = true
		one := all[v.s.n(len(all))]
		place := one.at + v.s.n(one.n)
		return changed(func(m []byte) []byte { m[place] ^= 1; return rehash(m) })
	}},
}, mild...)
