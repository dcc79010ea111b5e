package errands

import (
	"context"
	"encoding/json"
	"testing"

	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A deadAdmin has two letters, one for ALPHA and one for BETA, and gives those that the task allows.
type deadAdmin struct{ streams.Admin }

func (deadAdmin) Dead(_ context.Context, self string, t streams.DeadTask) (res streams.DeadResult, err error) {
	for _, d := range []wire.DeadLetter{{ID: "1", Agent: "ALPHA", From: "ann"}, {ID: "2", Agent: "BETA", From: "bob"}} {
		if t.May == nil || t.May(&d) {
			res.Letters = append(res.Letters, d)
		}
	}
	return res, nil
}

// A user has its own dead letters, and an administrator of an agent has those for that agent. Where askers are proved
// and no rules are known, there is no administrator. Only agents keep letters.
func TestDeadLettersAreTheirAuthors(t *testing.T) {
	rules := func(principal string, right transfer.Authority, agent transfer.AgentName, _ string) error {
		if right == transfer.AuthAdmin && (principal == "root" || principal == "deputy" && agent == "BETA") {
			return nil
		}
		return transfer.Errorf(transfer.KindDenied, "no")
	}
	for _, c := range []struct {
		asker  string
		proved bool
		may    Rules
		do     string
		want   string
	}{
		{"ann", true, rules, streams.DeadList, "1"},
		{"bob", true, rules, streams.DeadShow, "2"},
		{"eve", true, rules, streams.DeadResend, ""},
		{"root", true, rules, streams.DeadRemove, "12"},
		{"deputy", true, rules, streams.DeadList, "2"},
		{"ALPHA", true, rules, streams.DeadList, ""},
		{"ann", true, nil, streams.DeadList, "1"},
		{"root", true, nil, streams.DeadList, ""},
		{"eve", false, nil, streams.DeadList, "12"},
		{"eve", true, rules, streams.DeadKeep, "denied"},
		{"root", true, rules, streams.DeadKeep, "denied"},
		{"coordination", true, rules, streams.DeadKeep, "denied"},
		{"PIPE-0123456789000000000001", true, rules, streams.DeadKeep, "denied"},
	} {
		r := NewRegistrar("a test", deadAdmin{})
		r.May, r.Proved = c.may, c.proved
		body, err := json.Marshal(Errand{V: 1, Op: OpDead, Dead: &streams.DeadTask{Do: c.do}})
		if err != nil {
			t.Fatal(err)
		}
		res, err := r.Do(t.Context(), c.asker, body)
		got := ""
		if transfer.KindOf(err) == transfer.KindDenied {
			got = "denied"
		} else if err != nil {
			t.Errorf("%s: %v", c.asker, err)
		}
		if res.Dead != nil {
			for _, d := range res.Dead.Letters {
				got += d.ID
			}
		}
		if got != c.want {
			t.Errorf("%s, proved %v, with rules %v, has the letters %q by %q; want %q", c.asker, c.proved, c.may != nil, got, c.do, c.want)
		}
		r.Close()
	}
}
