package direct

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"ferry/internal/sys/tcp"
	"ferry/internal/wire"
)

func TestOrderPutsMessagesBackIntoSequence(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		o := &reorderBuffer{}
		for epoch := uint32(1); epoch <= 3; epoch++ {
			seqs := r.Perm(50)
			var got []uint64
			for _, s := range seqs {
				h := wire.Header{Epoch: epoch, Seq: uint64(s) + 1}
				o.take(h, binary.BigEndian.AppendUint64(nil, h.Seq), func(m []byte) { got = append(got, binary.BigEndian.Uint64(m)) })
			}
			for k, s := range got {
				if s != uint64(k)+1 {
					t.Fatalf("seed %d, epoch %d: message %d comes at place %d", seed, epoch, s, k+1)
				}
			}
			if len(got) != 50 || o.bytes != 0 || len(o.held) != 0 {
				t.Fatalf("seed %d: %d passed on, %d bytes still held", seed, len(got), o.bytes)
			}
		}
	}
}

func TestOrderLetsGoOfWhatIsTooMuch(t *testing.T) {
	o := &reorderBuffer{}
	var got []uint64
	deliver := func(m []byte) { got = append(got, binary.BigEndian.Uint64(m)) }
	big := make([]byte, 1<<20)
	for s := uint64(2); s <= maxHeld>>20+2; s++ { // the first never comes
		m := bytes.Clone(big)
		binary.BigEndian.PutUint64(m, s)
		o.take(wire.Header{Epoch: 1, Seq: s}, m, deliver)
	}
	if len(got) == 0 || got[0] != 2 || o.bytes > maxHeld {
		t.Fatalf("%d passed on, %d bytes held", len(got), o.bytes)
	}
	for k := 1; k < len(got); k++ {
		if got[k] != got[k-1]+1 {
			t.Fatalf("%d after %d", got[k], got[k-1])
		}
	}
}

// Before the greeting, a connection takes memory only for a greeting, for any length in the frame.
func TestAFirstFrameTakesLittle(t *testing.T) {
	for _, kind := range []byte{frameChunk, frameAttach, framePing, frameWelcome, frameHello} {
		size := uint32(maxBody)
		w := &wireConn{in: bufio.NewReaderSize(bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, size), kind)), 512)}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := w.readHello(); err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a first frame of type %d and %d bytes is waited for: %v", kind, size, err)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
			t.Errorf("%d bytes are taken for a first frame of type %d", n, kind)
		}
	}
}

// FuzzFrames reads any bytes of a peer. They take no more memory than a frame may have, and cause no panic.
func FuzzFrames(f *testing.F) {
	frame := func(kind byte, body string) []byte {
		return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), kind), body...)
	}
	f.Add(frame(frameHello, `{"v":1,"from":"ALPHA","to":"BETA","transfer":"0190a000-0000-7000-8000-000000000000","token":"00","group":"00112233445566778899aabbccddeeff","count":1}`))
	f.Add(frame(frameHello, `{"v":9}`))
	f.Add(frame(frameWelcome, `{"v":1}`))
	f.Add(frame(frameDenied, `{"v":1,"error":{"kind":"busy","text":"no"}}`))
	f.Add(frame(framePing, "12345678"))
	f.Add(frame(frameChunk, "x"))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, frameChunk})
	f.Add([]byte{0, 0, 0, 1, 99, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, read := range []func(*wireConn) error{
			func(w *wireConn) error { _, err := w.readHello(); return err },
			func(w *wireConn) error { return w.welcomed() },
			func(w *wireConn) error {
				kind, body, err := w.read(nil)
				if err == nil && len(body) > mostOf(kind) {
					t.Fatalf("a frame of type %d has %d bytes", kind, len(body))
				}
				return err
			},
		} {
			w := &wireConn{in: bufio.NewReaderSize(bytes.NewReader(data), 512), opt: tcp.Options{}}
			read(w)
		}
	})
}
