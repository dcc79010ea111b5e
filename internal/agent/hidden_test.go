package agent_test

import (
	"os"
	"path/filepath"
	"testing"

	"ferry/internal/agent"
	"ferry/internal/security/policy"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An agent tells its roots and exits to principals with a right at it, and to no others.
func TestFactsOfAnAgentAreHidden(t *testing.T) {
	program, err := os.Executable() // a program that can be run
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"*": 1, "user:ann": 0} {
		rules, err := policy.Parse([]byte(`{"v":1,"rules":[{"name":"one","who":["` + name + `"],"may":["operate"]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		s := sceneOf(t, agent.Config{Sandbox: rules, Programs: agent.Programs{Dirs: filepath.Dir(program),
			Exits: transfer.Exits{Programs: map[transfer.CallPoint]string{transfer.SourceStartExit: filepath.Base(program)}}}})
		data, err := s.stranger.Request(s.ctx, wire.AskAgent("ALPHA", s.stranger.Self()), wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskPing}), patience)
		if err != nil {
			t.Fatal(err)
		}
		ans, err := wire.DecodeAnswer(data)
		if err != nil || ans.Beat == nil || len(ans.Beat.Roots) != want || len(ans.Beat.Exits) != want {
			t.Errorf("where the rules are for %s, the stranger is told %+v, %v", name, ans.Beat, err)
		}
	}
}
