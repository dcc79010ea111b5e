package ledger

import (
	"encoding/binary"
	"errors"

	"ferry/internal/transfer"
)

// A packed value keeps many items in one ledger entry:
//
//	1 version (3)  1 kind: 1 intents, 2 outcomes
//	the number of items, then the number of each: the first as it is, others as
//	the distance from the one before, which is at least 1
//	the outcomes as a JSON array; intents have their intended outcomes
//	only intents: the data of each item's place, as a length and bytes
//
// Numbers and lengths are varints.
const (
	packedVersion = 3

	packedIntents  = 1
	packedOutcomes = 2

	maxPacked = 1024 // items in one record
)

var errPacked = errors.New("it is no record of items that this version knows")

// pack returns the packed value of intents, or of outcomes, which are then in intents. The numbers of the items ascend.
func pack(what byte, items []transfer.Intent) ([]byte, error) {
	b := append(make([]byte, 0, 64+320*len(items)), packedVersion, what)
	b = binary.AppendUvarint(b, uint64(len(items)))
	outs := make([]transfer.Outcome, len(items))
	last := uint64(0)
	for n := range items {
		outs[n] = items[n].Outcome
		b = binary.AppendUvarint(b, outs[n].Item-last)
		last = outs[n].Item
	}

	b, err := transfer.AppendOutcomes(b, outs, false)
	if err != nil || what == packedOutcomes {
		return b, err
	}

	for n := range items {
		b = append(binary.AppendUvarint(b, uint64(len(items[n].Place))), items[n].Place...)
	}
	return b, nil
}

// uvarint removes a number from the front of b.
func uvarint(b []byte) (v uint64, rest []byte, err error) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, errPacked
	}
	return v, b[n:], nil
}

// packedHead reads the kind of a value and its item numbers.
func packedHead(b []byte) (what byte, items []uint64, rest []byte, err error) {
	if len(b) < 2 || b[0] != packedVersion || b[1] != packedIntents && b[1] != packedOutcomes {
		return 0, nil, nil, errPacked
	}

	what = b[1]
	count, b, err := uvarint(b[2:])
	if err != nil || count == 0 || count > maxPacked {
		return 0, nil, nil, errPacked
	}

	items = make([]uint64, count)
	for n := range items {
		var d uint64
		if d, b, err = uvarint(b); err != nil {
			return 0, nil, nil, err
		}
		if n > 0 {
			if d == 0 || items[n-1]+d < d {
				return 0, nil, nil, errPacked
			}
			d += items[n-1]
		}
		items[n] = d
	}
	return what, items, b, nil
}

// packedItems returns the numbers of the items in a value.
func packedItems(b []byte) ([]uint64, error) {
	_, items, _, err := packedHead(b)
	return items, err
}

// unpack returns the kind and the items of a value.
func unpack(b []byte) (what byte, ins []transfer.Intent, err error) {
	what, items, b, err := packedHead(b)
	if err != nil {
		return 0, nil, err
	}

	outs, b, err := transfer.ReadOutcomes(b)
	if err != nil || len(outs) != len(items) {
		return 0, nil, errors.Join(errPacked, err)
	}

	ins = make([]transfer.Intent, len(items))
	for n := range ins {
		if ins[n].Outcome = outs[n]; outs[n].Item != items[n] {
			return 0, nil, errPacked
		}
		if what == packedOutcomes {
			continue
		}
		var size uint64
		if size, b, err = uvarint(b); err != nil || size > uint64(len(b)) {
			return 0, nil, errPacked
		}
		if size > 0 {
			ins[n].Place = append([]byte(nil), b[:size]...)
		}
		b = b[size:]
	}

	if len(b) > 0 {
		return 0, nil, errPacked
	}
	return what, ins, nil
}
