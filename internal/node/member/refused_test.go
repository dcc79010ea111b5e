package member

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The time for another attempt begins with the first refusal. The attempt before may have waited for the queue manager.
func TestARefusalAfterALongWaitIsTriedAgain(t *testing.T) {
	refusal := errors.New("refused")
	for _, c := range []struct {
		name  string
		known time.Duration // from the first refusal until the identity is known
		want  error
	}{{"soon", refusedFor / 2, nil}, {"never", time.Hour, refusal}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var first time.Time
				err := RetryRefused(t.Context(), func() (bool, error) {
					if first.IsZero() {
						<-time.After(10 * refusedFor) // the queue manager does not listen yet
						first = time.Now()
					}
					if time.Since(first) < c.known {
						return true, refusal
					}
					return false, nil
				})
				if err != c.want {
					t.Errorf("%v, want %v", err, c.want)
				}
				if most := refusedFor + 2*refusedPause; time.Since(first) > most {
					t.Errorf("it went on for %v after the first refusal; %v is the most", time.Since(first), most)
				}
			})
		})
	}
}
