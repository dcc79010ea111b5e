package view

import (
	"encoding/json"
	"time"

	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
)

// An IdentityLine is an identity in a directory of this host.
type IdentityLine struct {
	Name  identity.Name `json:"name"`
	Until time.Time     `json:"until"`
	Due   time.Time     `json:"due"` // from when it is renewed
	Dir   string        `json:"dir"`
	Root  string        `json:"root"` // hash of the network's root certificate
}

// IdentityOf returns the form of an identity.
func IdentityOf(i *identity.Identity) IdentityLine {
	return IdentityLine{i.Name(), i.Until(), i.Due(), i.Path(), i.Roots().Hash()}
}

// A TokenLine is a token that was made or taken back, or another change by the authority.
type TokenLine struct {
	MessageType string `json:"message_type"` // token, removed, revoked, rotated, policy
	Name        string `json:"name"`
	Token       string `json:"token,omitempty"`
	File        string `json:"file,omitempty"` // that has the token
}

// TokenFor returns the form of a new token, or of the file that has it.
func TokenFor(name identity.Name, token, file string) TokenLine {
	return TokenLine{TypeToken, name.String(), token, file}
}

// Authorised returns the form of another change by the authority. Its type is TypeRemoved, TypeRevoked, TypeRotated or
// TypePolicy. name is that of the token, the identity or the network.
func Authorised(messageType, name string) TokenLine {
	return TokenLine{MessageType: messageType, Name: name}
}

// A PolicyLine is the rules of a network.
type PolicyLine struct {
	Number uint64            `json:"number"`
	Issued time.Time         `json:"issued"`
	Policy json.RawMessage   `json:"policy"`
	Roles  map[string]string `json:"roles"` // of all users
}

// PolicyOf returns the form of the rules in a signed document.
func PolicyOf(d *trust.Document) PolicyLine { return PolicyLine{d.Number, d.Issued, d.Policy, d.Users} }

// A DecisionLine is one decision of the rules.
type DecisionLine struct {
	Principal string             `json:"principal"`
	Right     transfer.Authority `json:"authority"`
	Agent     transfer.AgentName `json:"agent,omitempty"`
	Path      string             `json:"path,omitempty"`
	Allowed   bool               `json:"allowed"`
	Rule      string             `json:"rule,omitempty"`
	Reason    string             `json:"reason,omitempty"` // why not
}

// DecisionOf returns the form of the decision about a question.
func DecisionOf(q *enrol.Question, d *enrol.Decision) DecisionLine {
	line := DecisionLine{Principal: q.Principal, Right: q.Right, Agent: q.Agent, Path: string(q.Path), Allowed: d.Error == nil, Rule: d.Rule}
	if d.Error != nil {
		line.Reason = d.Error.Text
	}
	return line
}
