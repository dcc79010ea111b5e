package compress

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"ferry/internal/transfer"
)

// records returns a realistic message: many similar records.
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
		packed := Messages.Pack(m)
		if small := len(packed) < len(m)/2; small != (len(m) >= packFrom) {
			t.Errorf("%d bytes became %d", len(m), len(packed))
		}
		got, err := Messages.Unpack(packed)
		if err != nil || !bytes.Equal(got, m) {
			t.Errorf("%d records: %d bytes came back as %d: %v", count, len(m), len(got), err)
		}
	}
}

// Messages of the shortest usual length are made of the vocabulary.
func TestPackShortMessages(t *testing.T) {
	for kind, c := range map[string]struct {
		message string
		most    int
	}{
		"ack":    {`{"v":1,"kind":"ack","from":"PAYROLL","transfer":"01a2ffff-1111-7222-8333-444455556666","body":{"epoch":3,"seq":1017,"credit":883076603,"bytes":4479995,"ahead":2582912}}`, 100},
		"status": {`{"v":1,"id":"01a2ffff-1111-7222-8333-444455556666","progress":{"id":"01a2ffff-1111-7222-8333-444455556666","state":"running","source":"PAYROLL","destination":"BANK","request_hash":"aabbccddeeff00112233445566778899","originator":"ada@babbage","submitted":"2027-01-02T03:04:05.111222333Z","started":"2027-01-02T03:04:06.444555666Z","items":7,"files":6,"files_failed":0,"directories":1,"bytes":123456,"files_total":9,"bytes_total":654321,"walked":true,"bytes_sent":223456,"bytes_held":123456,"lane":"queue","settings":{"chunk_size":262144,"window_size":10,"frame_size":5,"checkpoint_interval":1},"run_ahead":1048576,"epoch":2,"resumes":1,"bytes_resent":77,"bytes_wire":129111,"compress":"none","durability":"full","checksum":"xxh3","result_code":1}}`, 330},
	} {
		packed := Messages.Pack([]byte(c.message))
		if len(packed) > c.most {
			t.Errorf("%s: %d bytes became %d; %d may be", kind, len(c.message), len(packed), c.most)
		}
		if got, err := Messages.Unpack(packed); err != nil || string(got) != c.message {
			t.Errorf("%s came back as %q: %v", kind, got, err)
		}
	}
}

// A frame of another vocabulary is refused, not misread.
func TestUnpackRefusesAnotherVocabulary(t *testing.T) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderDictRaw(Messages.id+1, messagesText), zstd.WithSingleSegment(true))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Messages.Unpack(z.EncodeAll(records(20), nil)); transfer.KindOf(err) != transfer.KindDigest {
		t.Errorf("%q, %v", got, err)
	}
}

func BenchmarkPack(b *testing.B) {
	m := []byte(strings.TrimSpace(strings.Split(string(messagesText), "\n")[13]))
	for b.Loop() {
		Messages.Pack(m)
	}
}

// Data that is no frame of Pack is refused, without memory for the length that it gives.
func TestUnpackRefuses(t *testing.T) {
	whole := Messages.Pack(records(1000))
	large := Messages.encoder.EncodeAll(make([]byte, transfer.MaxChunk+1), nil)
	for what, m := range map[string][]byte{"cut": whole[:len(whole)-3], "more than 1 MiB": large, "twice": append(bytes.Clone(whole), whole...),
		"a magic number alone": whole[:4]} {
		if got, err := Messages.Unpack(m); transfer.KindOf(err) != transfer.KindDigest {
			t.Errorf("%s: %d bytes, %v", what, len(got), err)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte(`{"v":1}`))
	f.Add(Messages.Pack(records(20)))
	f.Add(Messages.Pack(records(2000)))
	f.Fuzz(func(t *testing.T, m []byte) {
		got, err := Messages.Unpack(m)
		if err == nil && len(got) > max(transfer.MaxChunk, len(m)) {
			t.Errorf("%d bytes became %d", len(m), len(got))
		}
	})
}
