package authority

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// FuzzActs: from any journal only whole lines are read. Reading it again after a cut at that point gives the same.
func FuzzActs(f *testing.F) {
	good := `{"v":1,"time":"2026-01-01T00:00:00Z","act":"token","name":"ferry://abcdefgh/agent/ALPHA","token":"x","until":"2026-01-01T01:00:00Z"}` + "\n"
	for _, s := range []string{"", "\n", good, good + good[:40], good + "{}\n", strings.Repeat("x", maxAct+1), good + strings.Repeat("x", maxAct+1) + "\n", `{"v":2}` + "\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var first, second state
		n := 0
		whole, err := readActs(bytes.NewReader(data), func(_ int, _ []byte, a *Act) { first.take(a); n++ })
		if whole > int64(len(data)) || whole > 0 && data[whole-1] != '\n' || n != bytes.Count(data[:whole], []byte("\n")) {
			t.Fatalf("%d acts in %d bytes of %d", n, whole, len(data))
		}
		if again, err2 := readActs(bytes.NewReader(data[:whole]), func(_ int, _ []byte, a *Act) { second.take(a) }); again != whole || err2 != nil {
			t.Fatalf("%d bytes, then %d: %v, %v", whole, again, err, err2)
		}
		if len(first.tokens) != len(second.tokens) || len(first.names) != len(second.names) {
			t.Fatal("it is read differently")
		}
	})
}

// FuzzSigner: data other than a certificate with its key is refused.
func FuzzSigner(f *testing.F) {
	root, err := newRoot("abcdefgh", time.Now())
	if err != nil {
		f.Fatal(err)
	}
	data, err := root.write()
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range [][]byte{nil, data, data[:len(data)/2], bytes.Replace(data, []byte("PRIVATE"), []byte("PUBLIC"), 2)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := readSigner(data); err == nil && (s.cert == nil || !s.key.PublicKey.Equal(s.cert.PublicKey)) {
			t.Fatal("a certificate without its key is taken")
		}
	})
}
