package streams

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/wire"
)

// A statedStream is a stream with a state and one message.
type statedStream struct {
	jetstream.Stream
	state jetstream.StreamState
	data  []byte
	got   int
}

func (s *statedStream) CachedInfo() *jetstream.StreamInfo {
	return &jetstream.StreamInfo{State: s.state}
}

func (s *statedStream) GetMsg(_ context.Context, n uint64, _ ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	s.got++
	return &jetstream.RawStreamMsg{Sequence: n, Data: s.data}, nil
}

// part reads a part of the message with a number from an offset on, and returns the offset behind it.
func (s *statedStream) part(t *testing.T, u *Unfinished, number uint64, at int) int {
	t.Helper()
	var res QueueResult
	task := &QueueTask{Do: QueueRead, Span: wire.QueueSpan{Queue: "Q", Mark: "m", First: number, Last: number}, Offset: at, Room: queueRoom}
	if err := res.read(t.Context(), s, u, task); err != nil {
		t.Fatal(err)
	}
	return at + len(res.Behind)
}

// Readers of one message share it, and it is dropped at its end.
func TestReadersShareAnUnfinishedMessage(t *testing.T) {
	var u Unfinished
	s := &statedStream{data: make([]byte, 4*queueRoom), state: jetstream.StreamState{FirstSeq: 1}}
	one, two := s.part(t, &u, 1, 0), s.part(t, &u, 1, 0)
	for one < len(s.data) || two < len(s.data) {
		if len(u.all) != 1 || u.bytes != len(s.data) {
			t.Fatalf("two readers of one message: %d are kept, with %d bytes", len(u.all), u.bytes)
		}
		one = s.part(t, &u, 1, one)
		two = s.part(t, &u, 1, two)
	}
	if s.got > 3 { // the last reader reads it anew after the end of the other one
		t.Errorf("the message was read %d times", s.got)
	}
	if len(u.all) != 0 || u.bytes != 0 {
		t.Errorf("%d messages are kept after their end, with %d bytes", len(u.all), u.bytes)
	}
}

// A message beyond the room is read anew at each answer. It takes the room of no other one.
func TestUnfinishedMessagesKeepTheirRoom(t *testing.T) {
	var u Unfinished
	s := &statedStream{data: make([]byte, unfinishedRoom/8), state: jetstream.StreamState{FirstSeq: 1}}
	at := map[uint64]int{}
	for range 3 {
		for reader := uint64(1); reader <= 9; reader++ {
			at[reader] = s.part(t, &u, reader, at[reader])
		}
	}
	if s.got != 9+2 {
		t.Errorf("nine readers have had messages read %d times for three answers each", s.got)
	}
}

// A message is dropped a minute after its last use, also where nothing else is read.
func TestUnfinishedMessagesAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u Unfinished
		s := &statedStream{data: make([]byte, 8*queueRoom), state: jetstream.StreamState{FirstSeq: 1}}
		s.part(t, &u, 2, 0)
		at := s.part(t, &u, 1, 0)
		for range 3 {
			time.Sleep(unfinishedIdle - time.Second)
			at = s.part(t, &u, 1, at)
		}
		synctest.Wait()
		if len(u.all) != 1 || s.got != 2 {
			t.Errorf("%d messages are kept, and %d were read", len(u.all), s.got)
		}
		time.Sleep(unfinishedIdle)
		synctest.Wait()
		if len(u.all) != 0 || u.bytes != 0 {
			t.Errorf("%d messages are kept, with %d bytes", len(u.all), u.bytes)
		}
	})
}

// A message of a queue that was lost, and has grown to the same numbers, is another one.
func TestUnfinishedMessageOfALostStore(t *testing.T) {
	var u Unfinished
	s := &statedStream{data: make([]byte, 4*queueRoom), state: jetstream.StreamState{FirstSeq: 1, FirstTime: time.Unix(1000, 0)}}
	at := s.part(t, &u, 1, 0)
	s.state.FirstTime = time.Unix(1000, 0).UTC()
	at = s.part(t, &u, 1, at)
	if s.got != 1 {
		t.Errorf("the message was read %d times", s.got)
	}
	s.state.FirstTime = time.Unix(2000, 0)
	if s.part(t, &u, 1, at); s.got != 2 {
		t.Error("the message of the lost store is given")
	}
}
