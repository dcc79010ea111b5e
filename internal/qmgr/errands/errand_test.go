package errands

import (
	"context"
	"testing"
	"testing/synctest"

	"ferry/internal/qmgr/streams"
)

// A slowAdmin inspects its streams only when the test lets it.
type slowAdmin struct {
	streams.Admin
	began chan uint64   // the number of a look
	goOn  chan struct{} // lets it end
	looks uint64
}

func (k *slowAdmin) Ensure(context.Context) (map[string]streams.Mark, error) {
	k.looks++
	n := k.looks
	k.began <- n
	<-k.goOn
	return map[string]streams.Mark{"S": {Last: n}}, nil
}

// Askers that come while the streams are inspected share the next look: the present one may have seen less than they
// know.
func TestManyAskForTheStreamsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &slowAdmin{began: make(chan uint64, 8), goOn: make(chan struct{})}
		r := NewRegistrar("a test", k)
		defer r.Close()
		got := make(chan uint64, 100)
		ask := func() {
			go func() {
				m, err := r.ensure(t.Context())
				if err != nil {
					t.Error(err)
				}
				got <- m["S"].Last
			}()
		}
		ask()
		if n := <-k.began; n != 1 {
			t.Fatalf("look %d", n)
		}
		for range 50 {
			ask()
		}
		synctest.Wait() // all of them wait
		k.goOn <- struct{}{}
		if n := <-got; n != 1 {
			t.Errorf("the first asker is given look %d", n)
		}
		k.goOn <- struct{}{}
		for range 50 {
			if n := <-got; n != 2 {
				t.Errorf("an asker during look 1 is given look %d", n)
			}
		}
		synctest.Wait()
		if k.looks != 2 {
			t.Errorf("51 questions have cost %d looks", k.looks)
		}
	})
}
