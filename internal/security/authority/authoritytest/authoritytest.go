// Package authoritytest makes networks with identities for tests.
package authoritytest

import (
	"path/filepath"
	"testing"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
)

// New returns an authority with a network of its own.
func New(t testing.TB) *authority.Authority {
	t.Helper()
	return NewWith(t, time.Now)
}

// NewWith is New with a clock.
func NewWith(t testing.TB, now func() time.Time) *authority.Authority {
	t.Helper()
	a, err := authority.Open(filepath.Join(t.TempDir(), "authority"), now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

// Identity makes an authority issue an identity, and returns it.
func Identity(t testing.TB, a *authority.Authority, role identity.Role, name string, as roles.Role) *identity.Identity {
	t.Helper()
	dir, err := keyfile.Make(filepath.Join(t.TempDir(), "identity"))
	if err != nil {
		t.Fatal(err)
	}
	i, err := a.IssueTo(dir, identity.Name{Network: a.Network(), Role: role, Name: name}, as, "")
	if err != nil {
		t.Fatal(err)
	}
	return i
}
