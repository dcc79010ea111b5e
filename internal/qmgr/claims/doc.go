// Package claims reads the rights that the authority of a network has signed for its queue managers, and compares the JWT
// of a client with them.
package claims
