package gate

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// manyWants returns a link with a peer that wants n subjects on Anyone and one on A, and the number of calls of its
// PeerFilter.
func manyWants(t *testing.T, n int) (*Link, *counted) {
	t.Helper()
	c := &counted{}
	l := newLink(bufio.NewReader(strings.NewReader("")), bufio.NewWriter(&bytes.Buffer{}))
	l.begin(c)
	for k := range n {
		if err := l.wanted([]string{fmt.Sprint("x.", k, ".", Anyone)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.wanted([]string{"x.A"}); err != nil {
		t.Fatal(err)
	}
	c.asked = 0
	return l, c
}

// counted is a PeerFilter that counts the calls of Hears. All subjects on A may be heard.
type counted struct {
	rules
	asked int
}

func (c *counted) Hears(subject string) (bool, string) {
	c.asked++
	on := subject[strings.LastIndexByte(subject, '.')+1:]
	return on == "A", on
}

// A peer with very many subjects, with identities that come and go without end, costs a bounded number of looks. An identity that
// comes is still looked at before the next message.
func TestLooksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wants, seconds = 20_000, 5
		l, c := manyWants(t, wants)
		asked := func() int {
			l.mu.Lock()
			defer l.mu.Unlock()
			return c.asked
		}
		go l.looking()
		for range 500 * seconds { // as many registrations as a peer may send
			before := asked()
			l.Changed("A", Anyone)
			if l.look(false); asked() == before {
				t.Fatal("the subject of an identity that has come is not looked at")
			}
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
		}
		if most := lookAhead + seconds*lookRate + 2*wants; asked() > most {
			t.Errorf("the passage was asked %d times in %d s, with a bound of %d", asked(), seconds, most)
		}
		before := asked()
		time.Sleep(time.Minute)
		synctest.Wait()
		if asked()-before < wants {
			t.Errorf("of the last change %d of %d subjects were looked at", asked()-before, wants)
		}
		before = asked()
		for range 500 * seconds { // and as many changes of the network
			l.Changed("")
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
		}
		if n, most := asked()-before, lookAhead+seconds*lookRate+2*wants; n > most {
			t.Errorf("after changes of the network the passage was asked %d times, with a bound of %d", n, most)
		}
		close(l.over)
	})
}
