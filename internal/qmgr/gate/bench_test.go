package gate

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkFilter passes on messages of the lane for data and small messages.
func BenchmarkFilter(b *testing.B) {
	for _, size := range []int{1 << 10, 256 << 10} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			message := "PUB ferry.data.BETA.ALPHA.01890a5d-ac96-774b-bcce-b302099a8057 " + strconv.Itoa(size) + "\r\n" + strings.Repeat("x", size) + "\r\n"
			said := []byte(hello + strings.Repeat(message, 64))
			b.SetBytes(int64(len(said)))
			b.ReportAllocs()
			for b.Loop() {
				f := benchFilter(bufio.NewReaderSize(bytes.NewReader(said), inBuffer), bufio.NewWriterSize(io.Discard, outBuffer))
				if err := f.run(); err != io.EOF {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchFilter(in *bufio.Reader, out *bufio.Writer) *filter {
	return &filter{in: in, out: out, publish: func(Caller, Message) (time.Duration, *Replacement) { return 0, nil }, admit: func(string) (Caller, error) {
		return Caller{Token: "ALPHA", Role: "agent", Replies: "ferry.inbox.ALPHA."}, nil
	}}
}
