package wire

import "ferry/internal/transfer"

// MayAsked is the body of AskMay. It asks whether a principal has an authority at an agent, by the network's rules as
// the agent has them, and by its sandbox.
type MayAsked struct {
	Principal string             `json:"principal"`
	Right     transfer.Authority `json:"authority"`
	Path      transfer.Path      `json:"path,omitempty"` // absolute; of authorities for paths
}

func (b *MayAsked) check() string {
	return broken(
		rule{"a principal that is none", b.Principal != "" && principal(b.Principal)},
		rule{"a word that is too long", short(string(b.Right))},
		rule{"a path that is too long", len(b.Path) <= transfer.MaxPath})
}

// May is the body of the answer to AskMay: the rule that allows it, or an error of KindDenied.
type May struct {
	Rule  string          `json:"rule,omitempty"`
	Error *transfer.Error `json:"error,omitempty"`
	Roots []string        `json:"roots,omitempty"` // of the agent
}

func (b *May) check() string {
	return broken(rule{"a rule that is too long", len(b.Rule) <= MaxText}, rule{"an error that is too long", sentence(b.Error)},
		rule{"too many roots", len(b.Roots) == len(fitting(b.Roots))})
}
