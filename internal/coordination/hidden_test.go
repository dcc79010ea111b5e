package coordination

import (
	"testing"

	"ferry/internal/coordination/status"
	"ferry/internal/security/access"
	"ferry/internal/security/policy"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The roots, rates and exits of an agent are for principals with a right at it.
func TestFactsOfAgentsAreHidden(t *testing.T) {
	rules, err := policy.Parse([]byte(`{"v":1,"rules":[{"name":"ann alone","who":["user:ann"],"may":["operate"]}]}`))
	check(t, err)
	s := &Service{picture: status.New(clock.System), rights: rights{access.NewJudge("", rules, false)}}
	_, err = s.picture.Beat(&wire.Beat{Agent: "ALPHA", Roots: []string{"/srv"}, Rates: map[transfer.AgentName]string{"": "1M"}, Exits: []string{"source-start=a.sh"}})
	check(t, err)
	for principal, want := range map[string]int{"ann": 1, "eve": 0} {
		ans := &wire.Answer{}
		check(t, s.askAgents(&receivedQuestion{Ask: &wire.Ask{Principal: principal, Agent: "ALPHA"}}, ans))
		if a := &ans.Agents[0]; len(a.Roots) != want || len(a.Rates) != want || len(a.Exits) != want {
			t.Errorf("%s sees the roots %v, the rates %v and the exits %v", principal, a.Roots, a.Rates, a.Exits)
		}
	}
}
