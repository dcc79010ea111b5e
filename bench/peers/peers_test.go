package peers

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// newServer returns a server that is prepared and not started.
func newServer(t *testing.T, k Kind) *Server {
	s := &Server{Kind: k, place: Place{Dir: t.TempDir(), Root: "/srv/root", Address: "127.0.0.1"}, port: 12345}
	s.dir = filepath.Join(s.place.Dir, "server")
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return s
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestFTPConfiguration(t *testing.T) {
	for _, k := range []Kind{FTP, FTPS, FTPText} {
		s := newServer(t, k)
		args, err := s.prepareFTP()
		if err != nil || len(args) != 1 {
			t.Fatal(args, err)
		}
		text := read(t, args[0])
		settings := map[string]string{}
		for line := range strings.Lines(text) {
			// vsftpd accepts no space around the sign, and stops at an unknown setting.
			name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			if !ok || strings.ContainsAny(name, " \t") || settings[name] != "" {
				t.Errorf("%q is malformed or there twice", line)
			}
			settings[name] = value
		}
		for name, want := range map[string]string{"listen_address": "127.0.0.1", "listen_port": "12345", "anon_root": "/srv/root", "run_as_launching_user": "YES", "background": "NO"} {
			if settings[name] != want {
				t.Errorf("%s: %s is %q, not %q", k, name, settings[name], want)
			}
		}
		if secure := settings["force_anon_data_ssl"] == "YES" && settings["force_anon_logins_ssl"] == "YES"; secure != k.Secure() {
			t.Errorf("%s: encryption is forced: %v", k, secure)
		}
		if text := settings["ascii_download_enable"] == "YES" && settings["ascii_upload_enable"] == "YES"; text != (k == FTPText) {
			t.Errorf("%s: it converts line ends: %v", k, text)
		}
	}
}

func TestRsyncAndDAVConfiguration(t *testing.T) {
	s := newServer(t, Rsync)
	if _, err := s.prepareRsync(); err != nil {
		t.Fatal(err)
	}
	text := read(t, filepath.Join(s.dir, "rsyncd.conf"))
	for _, want := range []string{"address = 127.0.0.1\n", "port = 12345\n", "path = /srv/root\n", "read only = no\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the daemon is not told %q:\n%s", want, text)
		}
	}
	for _, k := range []Kind{DAV, DAVS} {
		args, err := newServer(t, k).prepareDAV()
		if err != nil || !slices.Contains(args, "127.0.0.1:12345") || slices.Contains(args, "--cert") != k.Secure() {
			t.Errorf("%s: %q, %v", k, args, err)
		}
	}
}

func TestCertificate(t *testing.T) {
	s := newServer(t, FTPS)
	if err := s.makeCertificate(); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(s.certificate(), s.key())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(read(t, s.certificate())))
	for name, good := range map[string]bool{"127.0.0.1": true, "127.0.0.2": false} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots}); (err == nil) != good {
			t.Errorf("for %s: %v", name, err)
		}
	}
	if info, err := os.Stat(s.key()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the key: %v, %v", info.Mode(), err)
	}
}

func TestClients(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range append(Clients(), TextClients()...) {
		if seen[c.Name] || c.Program == "" {
			t.Errorf("%q is there twice or has no program", c.Name)
		}
		seen[c.Name] = true
		s := newServer(t, c.Server)
		w := command{work: Work{Set: "sets/a set", To: "copies/1", Files: []string{"0/a", `1/b "c"`}}, place: s.place, server: s, dir: t.TempDir()}
		args, err := c.build(w)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		all := strings.Join(args, " ")
		for _, file := range []string{"curl", "sftp"} {
			if data, err := os.ReadFile(filepath.Join(w.dir, file)); err == nil {
				all += string(data)
			}
		}
		if c.Server != None && !strings.Contains(all, "127.0.0.1") {
			t.Errorf("%s does not speak to the server: %s", c.Name, all)
		}
		if !strings.Contains(all, "sets/a set") || !strings.Contains(all, "copies/1") {
			t.Errorf("%s does not copy the expected files: %s", c.Name, all)
		}
		if c.Program == "curl" {
			if n := strings.Count(all, "url = "); n != 2 || !strings.Contains(all, `1/b \"c\"`) {
				t.Errorf("%s copies %d of 2 files: %s", c.Name, n, all)
			}
		}
		if strings.Contains(all, "--use-ascii") != (c.Server == FTPText) {
			t.Errorf("%s: %s", c.Name, all)
		}
		if c.Program == "curl" && strings.Contains(all, "--ssl-reqd") != c.Server.Secure() {
			t.Errorf("%s: %s", c.Name, all)
		}
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{"a": `"a"`, "a b": `"a b"`, `a"b`: `"a\"b"`, `a\b`: `"a\\b"`} {
		if got := quote(in); got != want {
			t.Errorf("%s is quoted as %s, not %s", in, got, want)
		}
	}
}

func TestEnvironmentHasNoSettings(t *testing.T) {
	t.Setenv("RCLONE_TRANSFERS", "1")
	t.Setenv("https_proxy", "http://192.0.2.1:1")
	t.Setenv("SSH_AUTH_SOCK", "/nowhere")
	env := environment("/new/home")
	for _, e := range env {
		for _, bad := range []string{"RCLONE_", "https_proxy=", "SSH_AUTH_SOCK="} {
			if strings.HasPrefix(e, bad) {
				t.Errorf("a peer would see %s", e)
			}
		}
	}
	if !slices.Contains(env, "HOME=/new/home") {
		t.Error("a peer would read its user's settings")
	}
}

func TestMissingProgramIsNamed(t *testing.T) {
	if _, err := Find("no-such-program-for-ferry"); err == nil || !strings.Contains(err.Error(), "no-such-program-for-ferry") {
		t.Errorf("%v", err)
	}
}
