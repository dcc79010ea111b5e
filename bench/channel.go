package bench

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"time"

	"ferry/internal/transfer"
)

// A stall is one exchange over a TCP connection of this host, as IBM's technote on delayed acknowledgements describes
// it: one side writes twice and waits for an answer, the other answers when it has read both.
//
// With Nagle's algorithm the kernel delays the second write until the first is acknowledged. The reader's kernel delays
// that acknowledgement, to send it together with an answer. The answer waits for the second write. The timer of the
// delayed acknowledgement ends this, after 40 ms on Linux. Either side can prevent it: the writer with TCP_NODELAY, the
// reader with TCP_QUICKACK.
type stall struct {
	nagle    bool // TCP_NODELAY off at the writer
	quickAck bool // TCP_QUICKACK at the reader, before each read
}

// Sizes of the two writes and of the answer, in bytes. Each is far from a full segment.
const (
	stallFirst  = 64
	stallSecond = 512
	stallAnswer = 64
)

// stallWarmups is the number of rounds before the measured ones. At the beginning of a connection Linux acknowledges at
// once.
const stallWarmups = 20

// run makes rounds and returns the time of each.
func (s stall) run(ctx context.Context, rounds int) (times []time.Duration, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, transfer.Errorf(transfer.KindInternal, "the loopback interface cannot be listened at: %w", err)
	}
	defer l.Close()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- s.answer(ctx, l, stallWarmups+rounds) }()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	if err == nil {
		defer context.AfterFunc(ctx, func() { c.Close() })()
		defer c.Close()
		if err = c.(*net.TCPConn).SetNoDelay(!s.nagle); err == nil {
			times, err = writeTwice(c, stallWarmups+rounds)
		}
	}

	l.Close()
	if e := <-answered; err == nil {
		err = e
	}
	if err != nil {
		return nil, transfer.Errorf(transfer.KindInternal, "the exchange over the loopback interface failed: %w", err)
	}
	return times[stallWarmups:], nil
}

// writeTwice is the writing side.
func writeTwice(c net.Conn, rounds int) ([]time.Duration, error) {
	first, second, answer := make([]byte, stallFirst), make([]byte, stallSecond), make([]byte, stallAnswer)
	var times []time.Duration
	for i := range rounds {
		binary.BigEndian.PutUint64(first, uint64(i))
		start := time.Now()
		for _, part := range [][]byte{first, second} {
			if _, err := c.Write(part); err != nil {
				return nil, err
			}
		}
		if _, err := io.ReadFull(c, answer); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
		if got := binary.BigEndian.Uint64(answer); got != uint64(i) {
			return nil, transfer.Errorf(transfer.KindInternal, "round %d was answered as round %d", i, got)
		}
	}
	return times, nil
}

// answer is the reading side.
func (s stall) answer(ctx context.Context, l net.Listener, rounds int) error {
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()

	defer context.AfterFunc(ctx, func() { c.Close() })()
	both := make([]byte, stallFirst+stallSecond)
	for range rounds {
		for n := 0; n < len(both); {
			if s.quickAck {
				// The kernel resets it, so it is set before each read.
				if err := quickAck(c.(*net.TCPConn)); err != nil {
					return err
				}
			}
			k, err := c.Read(both[n:])
			if err != nil {
				return err
			}
			n += k
		}
		if _, err := c.Write(both[:stallAnswer]); err != nil {
			return err
		}
	}
	return nil
}

// roundsSample returns the sample of rounds, with the percentiles of their times in milliseconds.
func roundsSample(times []time.Duration) Sample {
	var s Sample
	ms := make([]float64, len(times))
	for i, t := range times {
		s.Wall += t
		ms[i] = float64(t) / float64(time.Millisecond)
	}
	s.Extra = map[string]float64{extraP50: Percentile(ms, 50), extraP99: Percentile(ms, 99), extraMax: Percentile(ms, 100)}
	return s
}
