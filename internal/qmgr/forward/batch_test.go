package forward

import (
	"strings"
	"testing"
)

func FuzzBatch(f *testing.F) {
	for _, s := range []string{`{"v":1,"messages":[{"subject":"ferry.command.A.b","id":"x","data":"aGk="}]}`, `{"v":1,"messages":[{"subject":"ferry.event.A"}]}`, `{"v":2}`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := readBatch(data)
		if err != nil {
			return
		}
		for _, m := range b.Messages {
			if m.check() != nil {
				continue
			}
			if !strings.HasPrefix(m.Subject, "ferry.") || strings.ContainsAny(m.Subject, "*>") || strings.ContainsAny(m.Subject+m.ID, " \t\r\n") {
				t.Errorf("the subject %q is taken", m.Subject)
			}
		}
	})
}
