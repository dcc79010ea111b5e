// Package identity has the commands for tokens, identities and the rules of a network.
package identity
