package channel

import (
	"testing"

	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/transfer"
)

func FuzzChannel(f *testing.F) {
	for _, s := range []string{"QM1=nats://a:1", "QM1=a:1,b:2", "=x", "QM1", "QM1=nats://u:p@a:1", "Q M=nats://a:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseChannel(text)
		if err != nil {
			qmgrtest.WantKind(t, err, transfer.KindOf(err))
			return
		}
		if again, err := ParseChannel(c.Name + "=" + c.URL); err != nil || again != c {
			t.Errorf("%q is %+v, which is read as %+v, %v", text, c, again, err)
		}
	})
}
