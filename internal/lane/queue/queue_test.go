package queue_test

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"ferry/internal/lane/queue"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A recorder replaces the data connection.
type recorder struct {
	subject string
	data    []byte
	err     error
}

func (r *recorder) PublishData(subject string, data []byte) error {
	r.subject, r.data = subject, bytes.Clone(data)
	return r.err
}

func TestSendAndReceive(t *testing.T) {
	id := transfer.ID{1, 6: 0x70, 8: 0x80}
	pub := &recorder{}
	lane := queue.New(pub, nil, "A.B", "BETA", id)
	if err := lane.Send([]byte("message")); err != nil {
		t.Fatal(err)
	}
	if want := wire.DataSubject("BETA", "A.B", id); pub.subject != want || string(pub.data) != "message" {
		t.Errorf("sent %q on %s, want %s", pub.data, pub.subject, want)
	}
	var from transfer.AgentName
	var got []byte
	take := queue.Receive(quiet.New(slog.New(slog.DiscardHandler), time.Now), func(f transfer.AgentName, m []byte) { from, got = f, m })
	take(pub.subject, pub.data)
	if from != "A.B" || string(got) != "message" {
		t.Errorf("received %q from %s", got, from)
	}
	got = nil
	for _, subject := range []string{"", "ferry.data.BETA", "ferry.data.BETA.%ZZ.x", "ferry.data.BETA.a b.x", "ferry.data.BETA.ALPHA.x.y"} {
		if take(subject, []byte("x")); got != nil {
			t.Errorf("a message on %q is taken", subject)
		}
	}
}

func TestSendSaysWhatWentWrong(t *testing.T) {
	broken := errors.New("no connection")
	if err := queue.New(&recorder{err: broken}, nil, "ALPHA", "BETA", transfer.ID{}).Send(nil); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// A counting connection reports the bytes that it has carried.
type counting struct{ recorder }

func (*counting) DataCarried() (uint64, bool) { return 7, true }

func TestCarriedIsThatOfTheDataConnection(t *testing.T) {
	if n, waits := queue.New(&counting{}, nil, "ALPHA", "BETA", transfer.ID{}).Carried(); n != 7 || !waits {
		t.Errorf("%d bytes are carried, more wait: %v", n, waits)
	}
	if n, waits := queue.New(&recorder{}, nil, "ALPHA", "BETA", transfer.ID{}).Carried(); n != 0 || waits {
		t.Errorf("a connection that does not say has carried %d bytes, more wait: %v", n, waits)
	}
}
