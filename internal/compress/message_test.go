package compress

import (
	"bytes"
	"fmt"
	"testing"

	"ferry/internal/transfer"
)

// records is a message as they are: many records that are alike.
func records(count int) []byte {
	var b bytes.Buffer
	for n := range count {
		fmt.Fprintf(&b, `{"item":%d,"path":"/srv/beta/in/%06d","size":798},`, n, n)
	}
	return b.Bytes()
}

func TestPackRestores(t *testing.T) {
	for _, count := range []int{0, 1, 9, 11, 100, 10_000} {
		m := records(count)
		packed := Pack(m)
		if small := len(packed) < len(m)/2; small != (len(m) >= packFrom) {
			t.Errorf("%d bytes became %d", len(m), len(packed))
		}
		got, err := Unpack(packed)
		if err != nil || !bytes.Equal(got, m) {
			t.Errorf("%d records: %d bytes came back as %d: %v", count, len(m), len(got), err)
		}
	}
}

// What is no frame of Pack's is refused without memory for what it says.
func TestUnpackRefuses(t *testing.T) {
	whole := Pack(records(1000))
	large := messages().EncodeAll(make([]byte, transfer.MaxChunk+1), nil)
	for what, m := range map[string][]byte{"cut": whole[:len(whole)-3], "more than 1 MiB": large, "twice": append(bytes.Clone(whole), whole...),
		"a magic number alone": whole[:4]} {
		if got, err := Unpack(m); transfer.KindOf(err) != transfer.KindDigest {
			t.Errorf("%s: %d bytes, %v", what, len(got), err)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte(`{"v":1}`))
	f.Add(Pack(records(20)))
	f.Add(Pack(records(2000)))
	f.Fuzz(func(t *testing.T, m []byte) {
		got, err := Unpack(m)
		if err == nil && len(got) > max(transfer.MaxChunk, len(m)) {
			t.Errorf("%d bytes became %d", len(m), len(got))
		}
	})
}
