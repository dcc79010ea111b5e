// Package enrol enrols new members in a network, with a token, over HTTPS. The joiner has its keys on its disk before
// it asks. It compares the authority's root with the hash in the token before it shows the token's secret. So a false
// authority learns nothing, and the joiner may ask again when an answer is lost.
//
//	joiner                                             authority
//	TLS 1.3                                   ↔        its certificate, its issuer's, the root
//	POST /v1/enrol  secret, role, name, CSR, nkey →
//	                                          ←        certificate, roots, JWT, key of trust documents
package enrol

import (
	"encoding/base64"
	"net"
	"strings"

	"ferry/internal/transfer"
)

// A Token is the invitation of a joiner, as one line:
//
//	ferry-token:1:NETWORK:ROOT:SECRET:HOST:PORT[,HOST:PORT]…
//
// ROOT is the SHA-256 of the root's certificate in hexadecimal, SECRET 256 bits in base64url.
type Token struct {
	Network   string
	Root      string
	Secret    string
	Addresses []string // where the authority listens
}

const (
	tokenPrefix  = "ferry-token:1:"
	maxToken     = 4 << 10
	maxAddresses = 16
)

func (t Token) String() string {
	return tokenPrefix + t.Network + ":" + t.Root + ":" + t.Secret + ":" + strings.Join(t.Addresses, ",")
}

// ParseToken reads a token, with white space around it. Its errors are of KindUsage and do
// not repeat it.
func ParseToken(line string) (Token, error) {
	bad := transfer.Errorf(transfer.KindUsage, "this is no token of Ferry's; it is one line, which begins with %s", tokenPrefix).
		WithHint("copy it whole from `ferry token create`")
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), tokenPrefix)
	parts := strings.SplitN(rest, ":", 4)
	if !ok || len(line) > maxToken || len(parts) != 4 {
		return Token{}, bad
	}

	t := Token{Network: parts[0], Root: parts[1], Secret: parts[2], Addresses: strings.Split(parts[3], ",")}
	secret, err := base64.RawURLEncoding.DecodeString(t.Secret)
	if err != nil || len(secret) != 32 || len(t.Root) != 64 || strings.Trim(t.Root, "0123456789abcdef") != "" ||
		t.Network == "" || strings.Trim(t.Network, "abcdefghijklmnopqrstuvwxyz0123456789") != "" || len(t.Addresses) > maxAddresses {
		return Token{}, bad
	}
	for _, a := range t.Addresses {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" || strings.ContainsAny(a, " /@\t\r\n") {
			return Token{}, bad
		}
	}
	if t.String() != strings.TrimSpace(line) {
		return Token{}, bad
	}
	return t, nil
}
