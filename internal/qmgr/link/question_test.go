package link

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A question is waited for as long as bytes come on its connection, and 3 s longer.
func TestAQuestionLastsWhileBytesMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		s := &Socket{Conn: near}
		began := time.Now()
		ctx, cancel := s.Moving(t.Context(), still)
		defer cancel()
		for range 20 {
			//house:sleep because it runs in a bubble
			time.Sleep(time.Second)
			s.In.Add(1)
			if ctx.Err() != nil {
				t.Fatalf("bytes came for %s without a pause, and the question is given up", time.Since(began))
			}
		}
		last := time.Now()
		<-ctx.Done()
		if d := time.Since(last); d < still || d > still+2*lookEvery {
			t.Errorf("the question is given up %s after the last byte", d)
		}
	})
}
