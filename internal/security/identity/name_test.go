package identity

import (
	"strings"
	"testing"

	"ferry/internal/transfer"
)

const testNet = "abcdefgh12"

func TestNames(t *testing.T) {
	for uri, want := range map[string]struct {
		n     Name
		token string
	}{
		"ferry://abcdefgh12/agent/ALPHA":        {Name{testNet, Agent, "ALPHA"}, "ALPHA"},
		"ferry://abcdefgh12/agent/A%2EB%25":     {Name{testNet, Agent, "A.B%"}, "A%2EB%25"},
		"ferry://abcdefgh12/user/alice":         {Name{testNet, User, "alice"}, "alice"},
		"ferry://abcdefgh12/user/a%2eb%40c":     {Name{testNet, User, "a.b@c"}, "a%2eb%40c"},
		"ferry://abcdefgh12/user/%342":          {Name{testNet, User, "42"}, "%342"},
		"ferry://abcdefgh12/user/%c3%a9":        {Name{testNet, User, "é"}, "%c3%a9"},
		"ferry://abcdefgh12/qm/QM1":             {Name{testNet, Manager, "QM1"}, "qmgr"},
		"ferry://abcdefgh12/coordination":       {Name{testNet, Coordination, ""}, "coordination"},
		"ferry://abcdefgh12/authority":          {Name{testNet, Authority, ""}, "authority"},
		"ferry://abcdefgh12/user/dom%5cbob":     {Name{testNet, User, `dom\bob`}, "dom%5cbob"},
		"ferry://abcdefgh12/user/a%2f%2e%2e%2f": {Name{testNet, User, "a/../"}, "a%2f%2e%2e%2f"},
	} {
		got, err := Parse(uri)
		if err != nil || got != want.n || got.Token() != want.token || want.n.String() != uri {
			t.Errorf("%s: %+v, token %s, written %s, %v", uri, got, got.Token(), want.n, err)
		}
		back, err := OfToken(testNet, want.token)
		if isManager := want.n.Role == Manager; (err != nil) != isManager || !isManager && back != want.n {
			t.Errorf("the token %s is that of %+v, %v", want.token, back, err)
		}
	}
}

// A name in another spelling is invalid.
func TestNamesThatAreNone(t *testing.T) {
	for _, uri := range []string{"", "ferry://", "ferry://abcdefgh12", "ferry://abcdefgh12/", "ferry://abcdefgh12/agent", "ferry://abcdefgh12/agent/", "ferry://abcdefgh12/agent/alpha",
		"ferry://abcdefgh12/agent/A%2eB", "ferry://abcdefgh12/agent/A.B", "ferry://abcdefgh12/agent/%41LPHA", "ferry://abcdefgh12/agent/ALPHA/", "ferry://abcdefgh12/agent/ALPHA?x",
		"ferry://ABCDEFGH12/agent/ALPHA", "ferry://short/agent/ALPHA", "FERRY://abcdefgh12/agent/ALPHA", "http://abcdefgh12/agent/ALPHA", "ferry://abcdefgh12/chief/ALPHA",
		"ferry://abcdefgh12/user/Alice", "ferry://abcdefgh12/user/coordination", "ferry://abcdefgh12/user/authority", "ferry://abcdefgh12/user/qmgr", "ferry://abcdefgh12/user/up", "ferry://abcdefgh12/user/store-01", "ferry://abcdefgh12/user/a b", "ferry://abcdefgh12/user/a%20b",
		"ferry://abcdefgh12/user/a%0ab", "ferry://abcdefgh12/user/42", "ferry://abcdefgh12/user/a%2Eb", "ferry://abcdefgh12/user/" + strings.Repeat("a", 65),
		"ferry://abcdefgh12/coordination/", "ferry://abcdefgh12/coordination/x", "ferry://abcdefgh12/qm/", "ferry://abcdefgh12/qm/a%2fb", "ferry://u@abcdefgh12/agent/ALPHA", "ferry://abcdefgh12:1/agent/ALPHA",
		"ferry://abcdefgh12/user/%zz", "ferry://abcdefgh12/user/%"} {
		if n, err := Parse(uri); transfer.KindOf(err) != transfer.KindMalformed {
			t.Errorf("%s is %+v, %v", uri, n, err)
		}
	}
}

// FuzzNames: an accepted name has one spelling and is one token. No agent's token is a user's.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"ALPHA", "A.B", "42", "4_", "_", "-", "alice", "é", "%34", "a%2e", "coordination", "qmgr", "x y", "a\x00", "*", ">"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tokens := map[string]Name{}
		for _, n := range []Name{{testNet, Agent, s}, {testNet, User, s}, {testNet, Manager, s}, {testNet, Coordination, ""}, {testNet, Authority, ""},
			{testNet, Agent, strings.ToUpper(s)}, {testNet, User, strings.ToLower(s)}} {
			if n.Check() != nil {
				continue
			}
			again, err := Parse(n.String())
			if err != nil || again != n {
				t.Fatalf("%+v is written %s, and read as %+v, %v", n, n, again, err)
			}
			token := n.Token()
			if token == "" || strings.ContainsFunc(token, func(c rune) bool { return !plain(c) && c != '%' }) {
				t.Fatalf("the token of %+v is %q", n, token)
			}
			if other, ok := tokens[token]; ok && other != n {
				t.Fatalf("%+v and %+v have the token %s", n, other, token)
			}
			tokens[token] = n
		}
		if n, err := Parse(s); err == nil && n.String() != s {
			t.Fatalf("%q is %+v", s, n)
		}
	})
}
