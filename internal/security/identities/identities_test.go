package identities

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

const (
	one = "aaaaaaaaaa"
	two = "bbbbbbbbbb"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// An address has one spelling, and the network that was said last.
func TestAddresses(t *testing.T) {
	s := At(filepath.Join(t.TempDir(), "identities"))
	if _, err := s.Network("host:1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of an empty store: %v", err)
	}
	must(t, s.SetNetwork(one, "Host:1", "127.0.0.1:4222", "[::1]:7", "[2001:DB8::0:1]:9"))
	must(t, s.SetNetwork(two, ":7"))
	for address, want := range map[string]string{"host:1": one, "localhost:4222": one, "[::]:4222": one, "127.0.0.2:4222": one,
		"localhost:7": two, "[2001:db8::1]:9": one, "host:2": "", "other:1": "", "nonsense": ""} {
		got, err := s.Network(address)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%s is of the network %q, %v; want %q", address, got, err, want)
		}
	}
	must(t, s.SetNetwork("", "HOST:1"))
	if n, err := s.Network("host:1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an address that was made unknown is of %q, %v", n, err)
	}
}

// A new identity in a network removes the recorded addresses of its authority's hosts, and of no others.
func TestAHostThatChangesItsNetwork(t *testing.T) {
	s := At(filepath.Join(t.TempDir(), "identities"))
	must(t, s.Moved(two, "hub"))
	must(t, s.SetNetwork(one, "hub:4222", "hub:4322", "10.0.0.5:4222", "other:4222", "localhost:4222"))
	must(t, s.SetNetwork(two, "hub:4422"))
	must(t, s.Moved(two, "HUB", "10.0.0.5", "127.0.0.1"))
	for address, want := range map[string]string{"hub:4222": "", "hub:4322": "", "10.0.0.5:4222": "", "other:4222": one, "localhost:4222": one, "hub:4422": two} {
		if got, _ := s.Network(address); got != want {
			t.Errorf("%s is of the network %q; want %q", address, got, want)
		}
	}
}

// Of several processes that learn at once nothing is lost.
func TestManyLearnAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identities")
	var all sync.WaitGroup
	names := strings.Split("abcdefgh", "")
	for _, n := range names {
		all.Go(func() {
			if err := At(path).SetNetwork(one, n+":1"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, n := range names {
		if got, err := At(path).Network(n + ":1"); got != one {
			t.Errorf("%s is of %q, %v", n, got, err)
		}
	}
}

// A file that others may change is not believed, and a damaged one is named.
func TestAddressesThatAreNotBelieved(t *testing.T) {
	s := At(filepath.Join(t.TempDir(), "identities"))
	must(t, s.SetNetwork(one, "host:1"))
	file := filepath.Join(s.path, fileAddresses)
	must(t, os.Chmod(file, 0o644))
	if _, err := s.Network("host:1"); !errors.Is(err, keyfile.ErrInsecure) {
		t.Errorf("a file that others can read: %v", err)
	}
	must(t, os.Chmod(file, 0o600))
	for _, text := range []string{"", "{", `{"v":2,"networks":{"host:1":"aaaaaaaaaa"}}`, `{"v":1,"networks":[]}`} {
		must(t, os.WriteFile(file, []byte(text), 0o600))
		if _, err := s.Network("host:1"); transfer.KindOf(err) != transfer.KindMalformed || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// There is one identity for each network, and a name of a network never leads elsewhere.
func TestOneForEachNetwork(t *testing.T) {
	s := At(filepath.Join(t.TempDir(), "identities"))
	if all, err := s.Networks(); len(all) > 0 || err != nil {
		t.Errorf("in an empty store there are %v, %v", all, err)
	}
	var want []string
	for _, a := range []*authority.Authority{authoritytest.New(t), authoritytest.New(t)} {
		if _, err := s.Load(a.Network()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("before it is there: %v", err)
		}
		dir, err := s.Dir(a.Network())
		must(t, err)
		_, err = a.IssueTo(dir, identity.Name{Network: a.Network(), Role: identity.User, Name: "ann"}, roles.User, "")
		must(t, err)
		i, err := s.Load(a.Network())
		if err != nil || i.Name().Network != a.Network() {
			t.Errorf("%v, %v", i, err)
		}
		want = append(want, a.Network())
	}
	slices.Sort(want)
	if all, err := s.Networks(); !slices.Equal(all, want) || err != nil {
		t.Errorf("there are %v, %v; want %v", all, err, want)
	}

	now := time.Now()
	must(t, s.Sweep(now.Add(394*24*time.Hour), ""))
	if all, err := s.Networks(); len(all) != 2 || err != nil {
		t.Errorf("a year after their issue there are %v, %v", all, err)
	}
	must(t, os.Rename(filepath.Join(s.path, want[0]), filepath.Join(s.path, one)))
	if _, err := s.Load(one); transfer.KindOf(err) != transfer.KindMalformed {
		t.Errorf("an identity of another network: %v", err)
	}
	must(t, os.Rename(filepath.Join(s.path, one), filepath.Join(s.path, want[0])))
	must(t, s.Sweep(now.Add(396*24*time.Hour), want[0]))
	if all, err := s.Networks(); !slices.Equal(all, want[:1]) || err != nil {
		t.Errorf("later there are %v, %v", all, err)
	}
	for _, network := range []string{"", ".", "..", "../" + want[1], "lock", "a/b", strings.Repeat("a", 40)} {
		if _, err := s.Load(network); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%q: %v", network, err)
		}
		if _, err := s.Dir(network); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%q: %v", network, err)
		}
	}
}

func FuzzAddresses(f *testing.F) {
	for _, s := range []string{`{"v":1,"networks":{"host:1":"aaaaaaaaaa"}}`, `{"v":1}`, `{}`, `[]`, ``} {
		f.Add([]byte(s), "host:1")
	}
	f.Fuzz(func(t *testing.T, data []byte, address string) {
		s := At(filepath.Join(t.TempDir(), "identities"))
		must(t, s.SetNetwork(one, "other:1"))
		must(t, os.WriteFile(filepath.Join(s.path, fileAddresses), data, 0o600))
		if n, err := s.Network(address); err == nil {
			_, err := s.Load(n) // whatever its name, it leads nowhere else
			if err == nil {
				t.Errorf("%q has an identity", n)
			}
			must(t, s.SetNetwork(two, address))
			if n, err := s.Network(address); n != two || err != nil {
				t.Errorf("%q is of %q, %v", address, n, err)
			}
		}
	})
}
