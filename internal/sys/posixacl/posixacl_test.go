package posixacl

import (
	"encoding/binary"
	"slices"
	"testing"
)

func encoded(version uint32, list ...Entry) []byte {
	b := binary.LittleEndian.AppendUint32(nil, version)
	for _, e := range list {
		b = binary.LittleEndian.AppendUint16(b, uint16(e.Tag))
		b = binary.LittleEndian.AppendUint16(b, uint16(e.Perm))
		b = binary.LittleEndian.AppendUint32(b, e.ID)
	}
	return b
}

// A list is read as the kernel writes it, and its mask narrows users and groups alone.
func TestParse(t *testing.T) {
	list := []Entry{{Owner, 7, 0}, {User, 7, 1000}, {OwnerGroup, 5, 0}, {Group, 6, 50}, {Mask, 5, 0}, {Other, 3, 0}}
	got, ok := Parse(encoded(Version, list...))
	if !ok || !slices.Equal(got, list) {
		t.Errorf("%v, %t", got, ok)
	}
	want := []Entry{{Owner, 7, 0}, {User, 5, 1000}, {OwnerGroup, 5, 0}, {Group, 4, 50}, {Mask, 5, 0}, {Other, 3, 0}}
	if got := Effective(list); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	for _, b := range [][]byte{nil, {2, 0, 0}, encoded(3, list...)} {
		if _, ok := Parse(b); ok {
			t.Errorf("%x is a list", b)
		}
	}
	if got, ok := Parse(encoded(Version, list...)[:14]); !ok || len(got) != 1 {
		t.Errorf("of a list that is cut: %v, %t", got, ok)
	}
}
