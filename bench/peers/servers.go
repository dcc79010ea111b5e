package peers

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"ferry/internal/transfer"
)

// prepareFTP configures vsftpd for anonymous users with read and write access beneath the root. It runs as the present
// user and needs no rights.
func (s *Server) prepareFTP() ([]string, error) {
	me, err := user.Current()
	if err != nil {
		return nil, transfer.Errorf(transfer.KindInternal, "this user's name is not known: %w", err)
	}

	empty := filepath.Join(s.dir, "empty")
	if err := os.MkdirAll(empty, 0o700); err != nil {
		return nil, unwritable(empty, err)
	}

	settings := []string{
		"listen=YES", "listen_address=" + s.place.Address, fmt.Sprintf("listen_port=%d", s.port),
		"background=NO", "run_as_launching_user=YES", "secure_chroot_dir=" + empty,
		"anonymous_enable=YES", "no_anon_password=YES", "local_enable=NO", "ftp_username=" + me.Username, "anon_root=" + s.place.Root,
		"write_enable=YES", "anon_upload_enable=YES", "anon_mkdir_write_enable=YES", "anon_other_write_enable=YES", "anon_umask=022",
		"connect_from_port_20=NO", "pasv_address=" + s.place.Address,
		"xferlog_enable=NO", "seccomp_sandbox=NO",
	}
	if s.Kind == FTPS {
		if err := s.makeCertificate(); err != nil {
			return nil, err
		}
		settings = append(settings, "ssl_enable=YES", "allow_anon_ssl=YES", "force_anon_data_ssl=YES", "force_anon_logins_ssl=YES",
			"rsa_cert_file="+s.certificate(), "rsa_private_key_file="+s.key(), "ssl_ciphers=HIGH", "require_ssl_reuse=NO")
	}

	if s.Kind == FTPText {
		// Otherwise it accepts ASCII mode and continues in binary.
		settings = append(settings, "ascii_download_enable=YES", "ascii_upload_enable=YES")
	}

	conf, err := s.write("vsftpd.conf", strings.Join(settings, "\n")+"\n")
	return []string{conf}, err
}

// prepareSSH configures sshd for the present user, with one key.
func (s *Server) prepareSSH(ctx context.Context) ([]string, error) {
	for _, key := range []string{"host", "user"} {
		path := filepath.Join(s.dir, key)
		os.Remove(path)
		if text, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bench", "-f", path).CombinedOutput(); err != nil {
			return nil, transfer.Errorf(transfer.KindInternal, "ssh-keygen makes no key: %w: %s", err, strings.TrimSpace(string(text)))
		}
	}
	if err := s.separation(); err != nil {
		return nil, err
	}

	host, err := os.ReadFile(filepath.Join(s.dir, "host.pub"))
	if err != nil {
		return nil, unwritable(s.dir, err)
	}

	if _, err := s.write("known_hosts", fmt.Sprintf("[%s]:%d %s", s.place.Address, s.port, host)); err != nil {
		return nil, err
	}

	conf, err := s.write("sshd_config", strings.Join([]string{
		"ListenAddress " + s.place.Address, fmt.Sprintf("Port %d", s.port),
		"HostKey " + filepath.Join(s.dir, "host"), "AuthorizedKeysFile " + filepath.Join(s.dir, "user.pub"),
		"StrictModes no", "UsePAM no", "PasswordAuthentication no", "PermitRootLogin prohibit-password", "PidFile none",
		"UseDNS no", "PrintMotd no", "PrintLastLog no", "LogLevel ERROR", "MaxStartups 100", "Subsystem sftp internal-sftp",
	}, "\n")+"\n")
	return []string{"-D", "-e", "-f", conf}, err
}

// separation makes the empty directory that sshd requires as root. A package makes it only when its service starts.
func (s *Server) separation() error {
	const dir = "/run/sshd"
	if _, err := os.Stat(dir); err == nil || os.Geteuid() != 0 {
		return nil
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return unwritable(dir, err)
	}
	s.remove = func() { os.Remove(dir) }
	return nil
}

// prepareRsync configures a daemon with one module, the root.
func (s *Server) prepareRsync() ([]string, error) {
	settings := []string{
		"use chroot = no", "address = " + s.place.Address, fmt.Sprintf("port = %d", s.port), "reverse lookup = no", "numeric ids = yes",
		"pid file = " + filepath.Join(s.dir, "pid"), "log file = " + filepath.Join(s.dir, "log"), "transfer logging = no",
		"[place]", "path = " + s.place.Root, "read only = no",
	}
	if os.Geteuid() == 0 {
		// Otherwise it would switch to the user nobody. An ordinary user cannot choose.
		settings = append(settings, "uid = 0", "gid = 0")
	}
	conf, err := s.write("rsyncd.conf", strings.Join(settings, "\n")+"\n")
	return []string{"--daemon", "--no-detach", "--config=" + conf}, err
}

// prepareDAV makes rclone serve the root. rclone keeps listings of directories for minutes, so the files must be there
// before the first request. Without that, it would list a directory for each of its files.
func (s *Server) prepareDAV() ([]string, error) {
	conf, err := s.write("rclone.conf", "")
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "webdav", s.place.Root, "--addr", s.Address(), "--config", conf, "--cache-dir", filepath.Join(s.dir, "cache")}
	if s.Kind == DAVS {
		if err := s.makeCertificate(); err != nil {
			return nil, err
		}
		args = append(args, "--cert", s.certificate(), "--key", s.key())
	}
	return args, nil
}

func (s *Server) certificate() string { return filepath.Join(s.dir, "cert.pem") }
func (s *Server) key() string         { return filepath.Join(s.dir, "key.pem") }

// makeCertificate makes a key and a certificate for the server's address that clients accept as an authority's: ECDSA,
// P-256, valid for two days.
func (s *Server) makeCertificate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return transfer.Errorf(transfer.KindInternal, "no key can be made: %w", err)
	}

	now := time.Now()
	template := x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "ferry-bench"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(48 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true, IPAddresses: []net.IP{net.ParseIP(s.place.Address)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return transfer.Errorf(transfer.KindInternal, "no certificate can be made: %w", err)
	}

	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return transfer.Errorf(transfer.KindInternal, "no key can be written: %w", err)
	}

	if _, err := s.write("cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))); err != nil {
		return err
	}

	_, err = s.write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	return err
}
