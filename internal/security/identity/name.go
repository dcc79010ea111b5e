// Package identity has the names of a network's members and the proofs of them: a certificate for TLS, with the name as
// a URI, and a signed nkey for the queue manager. It verifies the certificates of peers against those of the network.
// It never asks the issuer of an identity, which may be away.
package identity

import (
	"net/url"
	"strings"

	"ferry/internal/transfer"
)

// A Role is the kind of a member of a network.
type Role string

// The roles. The last two have no name of their own: a network has one of each.
const (
	Agent        Role = "agent"
	User         Role = "user"
	Manager      Role = "qm"
	Coordination Role = "coordination"
	Authority    Role = "authority"
)

// A Name names a member: ferry://NETWORK/ROLE/NAME. It has one spelling.
type Name struct {
	Network string // 8 to 32 small letters and digits
	Role    Role
	Name    string // of an agent in capitals, of a user in small letters; empty for coordination and authority
}

const maxName = 64 // bytes of the name of a user or queue manager

// Check returns an error of KindUsage unless the name has its one spelling.
func (n Name) Check() error {
	if !network(n.Network) {
		return transfer.Errorf(transfer.KindUsage, "%q is not the ID of a network: 8 to 32 small letters and digits", n.Network)
	}

	switch n.Role {
	case Agent:
		if a, err := transfer.ParseAgentName(n.Name); err != nil {
			return err
		} else if string(a) != n.Name {
			return transfer.Errorf(transfer.KindUsage, "the agent name %q is not in capitals", n.Name)
		}
	case User:
		return checkUser(n.Name)
	case Manager:
		if n.Name == "" || len(n.Name) > maxName || strings.ContainsFunc(n.Name, func(c rune) bool { return !plain(c) && c != '.' }) {
			return transfer.Errorf(transfer.KindUsage, "the name of a queue manager %q is not valid: 1 to %d letters, digits or _ . -", n.Name, maxName)
		}
	case Coordination, Authority:
		if n.Name != "" {
			return transfer.Errorf(transfer.KindUsage, "the %s of a network has no name of its own; it has %q", n.Role, n.Name)
		}
	default:
		return transfer.Errorf(transfer.KindUsage, "there is no role %q", n.Role)
	}
	return nil
}

func network(id string) bool {
	return len(id) >= 8 && len(id) <= 32 && !strings.ContainsFunc(id, func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') })
}

func checkUser(name string) error {
	switch {
	case name == "" || len(name) > maxName:
		return transfer.Errorf(transfer.KindUsage, "a user name has 1 to %d bytes; %q has %d", maxName, name, len(name))
	case strings.ToLower(name) != name:
		return transfer.Errorf(transfer.KindUsage, "the user name %q is not in small letters", name)
	case strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c == 0x7f }):
		return transfer.Errorf(transfer.KindUsage, "the user name %q has a space or a control character", name)
	case name == string(Coordination), name == string(Authority), name == "qmgr", name == "up":
		return transfer.Errorf(transfer.KindUsage, "no user is called %s: it is a part of every network", name)
	case storeOfManager(name):
		return transfer.Errorf(transfer.KindUsage, "no user is called %s: the store of queue manager %s is", name, strings.TrimPrefix(name, store))
	}
	return nil
}

// store begins the token of a queue manager that answers through channels, before its own token.
const store = "store-"

// storeOfManager reports whether the token of a user would be that of a queue manager's store. Tokens of queue managers have no small
// letters.
func storeOfManager(user string) bool {
	at, ok := strings.CutPrefix(user, store)
	return ok && at != "" && !strings.ContainsFunc(at, func(c rune) bool { return !plain(c) || 'a' <= c && c <= 'z' })
}

// plain reports whether a token has the character unchanged.
func plain(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// Token returns the name as one token of a subject. A byte outside A-Z a-z 0-9 _ - is %XX. No two names of one network
// have the same token. Tokens of users have hexadecimal digits in small letters, and do not begin with an unescaped
// digit. Tokens of agents begin with a letter or digit and have no small letters.
func (n Name) Token() string {
	switch n.Role {
	case Agent:
		return transfer.AgentName(n.Name).Token()
	case User:
		return transfer.UserToken(n.Name)
	case Manager:
		return "qmgr"
	}
	return string(n.Role)
}

// OfToken returns the name with a token in a network. It does not find queue managers, which share one token. The error
// is of KindMalformed.
func OfToken(network, token string) (n Name, err error) {
	n = Name{Network: network, Role: Role(token)}
	switch {
	case token == "":
	case n.Role == Coordination, n.Role == Authority:
		return n, n.Check()
	case 'A' <= token[0] && token[0] <= 'Z' || '0' <= token[0] && token[0] <= '9':
		n.Role = Agent
		n.Name, err = url.PathUnescape(token)
	default:
		n.Role = User
		n.Name, err = url.PathUnescape(token)
	}
	if err == nil {
		err = n.Check()
	}
	if err != nil || n.Token() != token {
		return Name{}, transfer.Errorf(transfer.KindMalformed, "%.200q is no token of an identity", token)
	}
	return n, nil
}

// String returns the name as a URI, as in a certificate.
func (n Name) String() string {
	s := "ferry://" + n.Network + "/" + string(n.Role)
	switch n.Role {
	case Agent, User:
		return s + "/" + n.Token()
	case Manager:
		return s + "/" + n.Name
	}
	return s
}

// MarshalText writes the name as a URI.
func (n Name) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads the text of MarshalText.
func (n *Name) UnmarshalText(b []byte) (err error) {
	*n, err = Parse(string(b))
	return err
}

// Parse reads a name in the form of String. It refuses any other spelling with KindMalformed.
func Parse(s string) (Name, error) {
	bad := transfer.Errorf(transfer.KindMalformed, "%.200q is not the name of an identity; that is ferry://NETWORK/ROLE/NAME", s)
	rest, ok := strings.CutPrefix(s, "ferry://")
	parts := strings.Split(rest, "/")
	if !ok || len(s) > 512 || len(parts) < 2 || len(parts) > 3 {
		return Name{}, bad
	}

	n := Name{Network: parts[0], Role: Role(parts[1])}
	if len(parts) == 3 {
		var err error
		if n.Name, err = url.PathUnescape(parts[2]); err != nil {
			return Name{}, bad
		}
	}
	if n.Check() != nil || n.String() != s {
		return Name{}, bad
	}
	return n, nil
}
