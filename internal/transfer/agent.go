package transfer

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// An AgentName names an agent. Case does not distinguish agents: ParseAgentName and UnmarshalText put a name in
// capitals, so names can be compared directly.
type AgentName string

// ParseAgentName checks a name: 2 to 28 characters, letters, digits and
// "_ . % -", the first a letter or digit. The result is in capitals.
func ParseAgentName(s string) (AgentName, error) {
	if len(s) < 2 || !IsName(s, 28, "_.%-") {
		return "", Errorf(KindUsage, "agent name %q is not valid: 2 to 28 letters, digits or _ . %% -, beginning with a letter or digit", s)
	}
	return AgentName(strings.ToUpper(s)), nil
}

// StreamAgent returns the name of the agent that a command runs for its standard input or output, as one side of the
// transfer id. The name is PIPE- and the last 12 digits of the ID.
func StreamAgent(id ID) AgentName {
	text := strings.ReplaceAll(id.String(), "-", "")
	return AgentName(streamPrefix + strings.ToUpper(text[len(text)-12:]))
}

// StreamAgentOf returns the name of such an agent in a network with identities: PIPE-, 10 digits of the hash of its
// user's name, and the last 12 digits of the ID.
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

// StreamUser returns the part of a name of StreamAgentOf that all pipes of a user share, or "" for other names.
func (n AgentName) StreamUser() string {
	if !n.Stream() || len(n) != len(streamPrefix)+streamUserSize+streamIDSize {
		return ""
	}
	return string(n[len(streamPrefix):][:streamUserSize])
}

// StreamOf reports whether n is a name of StreamAgentOf for the user and any transfer.
func (n AgentName) StreamOf(user string) bool {
	return n.StreamUser() == streamUser(user)
}

// Stream reports whether n is a name of StreamAgent or StreamAgentOf. Such an agent ends with its transfer.
func (n AgentName) Stream() bool {
	digits, ok := strings.CutPrefix(string(n), streamPrefix)
	return ok && (len(digits) == streamIDSize || len(digits) == streamUserSize+streamIDSize) && strings.Trim(digits, "0123456789ABCDEF") == ""
}

// UnmarshalText reads a name like ParseAgentName. An empty text is the empty name.
func (a *AgentName) UnmarshalText(b []byte) (err error) {
	*a = ""
	if len(b) > 0 {
		*a, err = ParseAgentName(string(b))
	}
	return err
}

// Token returns the name as one token of a subject, with every byte outside A-Z 0-9 _ - as %XX.
func (a AgentName) Token() string { return Token(string(a)) }

// Token returns any text as one token of a subject. It puts the text in capitals first.
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

// UserToken returns a user's name, which must not be empty, as one token of a subject. It puts the name in small
// letters first. A byte outside a-z 0-9 _ - becomes %xx, and so does a digit at the beginning. An agent's token is
// never the same: it begins with a capital or a digit.
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

// SplitAgent splits [AGENT:]PATH as the user types it. A text that begins with '/' or '.' has no agent. Neither has a
// text whose part before the first ':' is no agent's name: a drive letter has one character, an agent two or more.
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
