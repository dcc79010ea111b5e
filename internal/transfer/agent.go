package transfer

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// An AgentName names an agent. Case does not distinguish agents: a name is in
// capitals wherever it was read (ParseAgentName, UnmarshalText), so that names can
// be compared as they are.
type AgentName string

// ParseAgentName checks a name: 2 to 28 characters, letters, digits and
// "_ . % -", the first a letter or digit. The result is in capitals.
func ParseAgentName(s string) (AgentName, error) {
	if len(s) < 2 || !IsName(s, 28, "_.%-") {
		return "", Errorf(KindUsage, "agent name %q is not valid: 2 to 28 letters, digits or _ . %% -, beginning with a letter or digit", s)
	}
	return AgentName(strings.ToUpper(s)), nil
}

// StreamAgent is the name of the agent that one command runs for its standard input or
// output, which is a side of the transfer id: PIPE- and the last 12 digits of the ID.
func StreamAgent(id ID) AgentName {
	text := strings.ReplaceAll(id.String(), "-", "")
	return AgentName(streamPrefix + strings.ToUpper(text[len(text)-12:]))
}

// StreamAgentOf is the name of such an agent in a network with identities: PIPE-, 10 digits of the hash of the
// name of its user there, and the last 12 digits of the ID.
func StreamAgentOf(user string, id ID) AgentName {
	return streamPrefix + AgentName(streamUser(user)) + StreamAgent(id)[len(streamPrefix):]
}

const (
	streamPrefix   = "PIPE-"
	streamUserSize = 10 // digits of a user
	streamIDSize   = 12 // digits of an ID
)

func streamUser(user string) string {
	sum := sha256.Sum256([]byte(user))
	return fmt.Sprintf("%X", sum[:streamUserSize/2])
}

// StreamUser is the part of a name of StreamAgentOf that all pipes of a user have in common; "" for other names.
func (n AgentName) StreamUser() string {
	if !n.Stream() || len(n) != len(streamPrefix)+streamUserSize+streamIDSize {
		return ""
	}
	return string(n[len(streamPrefix):][:streamUserSize])
}

// StreamOf reports whether StreamAgentOf gives n for a user and a transfer.
func (n AgentName) StreamOf(user string) bool {
	return n.StreamUser() == streamUser(user)
}

// Stream reports whether n is a name that StreamAgent or StreamAgentOf gives. Such an agent ends with its transfer.
func (n AgentName) Stream() bool {
	digits, ok := strings.CutPrefix(string(n), streamPrefix)
	return ok && (len(digits) == streamIDSize || len(digits) == streamUserSize+streamIDSize) && strings.Trim(digits, "0123456789ABCDEF") == ""
}

// UnmarshalText reads a name as ParseAgentName does; no text is no name.
func (a *AgentName) UnmarshalText(b []byte) (err error) {
	*a = ""
	if len(b) > 0 {
		*a, err = ParseAgentName(string(b))
	}
	return err
}

// Token is the name as one token of a subject: every byte outside A-Z 0-9 _ -
// as %XX.
func (a AgentName) Token() string { return Token(string(a)) }

// Token makes any text one token of a subject. It puts it in capitals first.
func Token(s string) string {
	var b strings.Builder
	for _, c := range []byte(strings.ToUpper(s)) {
		if 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// UserToken makes a user's name, which is not empty, one token of a subject. It puts it in
// small letters first; a byte outside a-z 0-9 _ - is %xx, and so is a digit at its beginning.
// No agent's token is the same: that begins with a capital or a digit.
func UserToken(name string) string {
	var b strings.Builder
	for i, c := range []byte(strings.ToLower(name)) {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' && i > 0 || c == '_' || c == '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	return b.String()
}

// SplitAgent takes [AGENT:]PATH apart, as a person types it. A text that begins with '/' or '.' has
// no agent, and neither has one whose part before the first ':' cannot be an
// agent's name (a drive letter has one character, an agent two or more).
func SplitAgent(s string) (at AgentName, rest string, err error) {
	if s == "" {
		return "", "", Errorf(KindUsage, "a location is empty; give [AGENT:]PATH")
	}

	if s[0] == '/' || s[0] == '.' {
		return "", s, nil
	}

	before, after, ok := strings.Cut(s, ":")
	if !ok || len(before) < 2 || strings.Contains(before, "/") {
		return "", s, nil
	}

	name, err := ParseAgentName(before)
	if err != nil {
		return "", "", err
	}

	if after == "" {
		return "", "", Errorf(KindUsage, "location %q names an agent but no path; give %s:PATH", s, name)
	}
	return name, after, nil
}
