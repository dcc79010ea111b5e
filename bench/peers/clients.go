package peers

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"ferry/internal/transfer"
)

// A Client is one way to copy files with a peer.
type Client struct {
	Name    string // for example "vsftpd + curl, get"
	Program string
	Server  Kind // None for a copy on one host without a server
	build   func(c command) (argv []string, err error)

	// One is the reason why the client is only suitable for one file, or "". Such a client takes minutes for thousands.
	One string
}

// Reasons why a client is only suitable for one file.
const (
	curlWaits = "curl waits for up to a second when it opens a connection to get data over"
	tlsWaits  = "each file takes a connection of its own, with a handshake and an orderly end"
	davWaits  = "over WebDAV, rclone takes more than ten milliseconds for each file, however many at once"
)

// A Work is the work of a client: to copy the tree Set beneath To under the set's own name. Both are relative to the
// place's root, with slashes. Files are all files of the set, by their names in it.
type Work struct {
	Set   string
	To    string
	Files []string
}

// A Cost is the consumption of a client's process and of the children that it waited for.
type Cost struct {
	CPU  time.Duration
	Peak int64 // most resident memory in bytes; 0 if the system does not report it
}

// A command has the parts of a client's arguments.
type command struct {
	work   Work
	place  Place
	server *Server // nil for None
	dir    string  // for the client's input files
}

func (c command) set() string     { return filepath.Join(c.place.Root, filepath.FromSlash(c.work.Set)) }
func (c command) to() string      { return filepath.Join(c.place.Root, filepath.FromSlash(c.work.To)) }
func (c command) setName() string { return filepath.Base(c.set()) }

// Clients returns all clients, in the order of reports.
func Clients() []Client {
	return []Client{
		{"vsftpd + curl, get", "curl", FTP, curlGet, curlWaits},
		{"vsftpd + curl, put", "curl", FTP, curlPut, ""},
		{"vsftpd + lftp mirror", "lftp", FTP, lftp(1), ""},
		{"vsftpd + lftp mirror, 4 at once", "lftp", FTP, lftp(4), ""},
		{"rsync daemon -W", "rsync", Rsync, rsync, ""},
		{"rclone, webdav", "rclone", DAV, rclone, davWaits},
		{"cp", "cp", None, func(c command) ([]string, error) { return []string{"-r", c.set(), c.to()}, nil }, ""},
		{"vsftpd + curl --ssl-reqd, get", "curl", FTPS, curlGet, curlWaits},
		{"vsftpd + curl --ssl-reqd, put", "curl", FTPS, curlPut, ""},
		{"vsftpd + lftp mirror, TLS", "lftp", FTPS, lftp(1), tlsWaits},
		{"sftp", "sftp", SSH, sftp, ""},
		{"scp", "scp", SSH, scp, ""},
		{"rclone, webdav, TLS", "rclone", DAVS, rclone, davWaits},
	}
}

// TextClients returns the clients that copy text. FTP's ASCII mode has CR LF line ends on the way, and the host's own
// at both ends. If both ends have the same line end, the bytes arrive unchanged.
func TextClients() []Client {
	return []Client{
		{"vsftpd + curl --use-ascii, get", "curl", FTPText, ascii(curlGet), curlWaits},
		{"vsftpd + curl --use-ascii, put", "curl", FTPText, ascii(curlPut), ""},
	}
}

// ascii returns build with curl in ASCII mode.
func ascii(build func(command) ([]string, error)) func(command) ([]string, error) {
	return func(c command) ([]string, error) {
		args, err := build(c)
		return append([]string{"--use-ascii"}, args...), err
	}
}

// Copy runs a client from its start to its exit, and returns its time and cost. server is of the client's kind, nil for
// None. The caller verifies the copy.
func (c Client) Copy(ctx context.Context, p Place, server *Server, w Work) (wall time.Duration, cost Cost, err error) {
	if server != nil {
		p = server.place
	}

	dir, err := os.MkdirTemp(p.Dir, "client-")
	if err != nil {
		return 0, cost, unwritable(p.Dir, err)
	}
	defer os.RemoveAll(dir)

	cmd := command{work: w, place: p, server: server, dir: dir}
	if err := os.MkdirAll(cmd.to(), 0o755); err != nil {
		return 0, cost, unwritable(cmd.to(), err)
	}

	program, err := Find(c.Program)
	if err != nil {
		return 0, cost, err
	}

	args, err := c.build(cmd)
	if err != nil {
		return 0, cost, err
	}

	argv := append(append(append([]string{}, p.ClientWrap...), program), args...)
	run := exec.CommandContext(ctx, argv[0], argv[1:]...)
	run.Env = environment(dir)
	run.Dir = dir
	ownGroup(run)
	run.Cancel = func() error { killGroup(run); return nil }
	var said strings.Builder
	run.Stdout, run.Stderr = &said, &said
	start := time.Now()
	err = run.Run()
	wall = time.Since(start)
	if err != nil {
		text := said.String()
		if server != nil {
			text += " / " + server.said()
		}
		return wall, cost, transfer.Errorf(transfer.KindInternal, "%s failed: %w: %s", c.Name, err, strings.TrimSpace(text[max(0, len(text)-1000):]))
	}
	return wall, Cost{CPU: run.ProcessState.UserTime() + run.ProcessState.SystemTime(), Peak: peak(run.ProcessState)}, nil
}

// curl reads the addresses from a file and keeps its control connection.
func (c command) curl(each func(w *bufio.Writer, file string)) ([]string, error) {
	path := filepath.Join(c.dir, "curl")
	f, err := os.Create(path)
	if err != nil {
		return nil, unwritable(path, err)
	}

	w := bufio.NewWriter(f)
	for _, file := range c.work.Files {
		each(w, file)
	}
	if err := w.Flush(); err != nil {
		return nil, unwritable(path, err)
	}
	if err := f.Close(); err != nil {
		return nil, unwritable(path, err)
	}

	// Without --fail-early the exit code is that of the last file only.
	args := []string{"--disable", "--silent", "--show-error", "--fail", "--fail-early"}
	if c.server.Kind == FTPS {
		args = append(args, "--ssl-reqd", "--cacert", c.server.certificate())
	}
	return append(args, "--config", path), nil
}

func (c command) url(path string) string {
	return "ftp://" + c.server.Address() + "/" + path
}

func curlGet(c command) ([]string, error) {
	args, err := c.curl(func(w *bufio.Writer, file string) {
		fmt.Fprintf(w, "url = %q\noutput = %q\n", c.url(c.work.Set+"/"+file), filepath.Join(c.to(), c.setName(), filepath.FromSlash(file)))
	})
	// This saves one command for each file over a change of directory.
	return append([]string{"--create-dirs", "--ftp-method", "nocwd"}, args...), err
}

func curlPut(c command) ([]string, error) {
	args, err := c.curl(func(w *bufio.Writer, file string) {
		fmt.Fprintf(w, "url = %q\nupload-file = %q\n", c.url(c.work.To+"/"+c.setName()+"/"+file), filepath.Join(c.set(), filepath.FromSlash(file)))
	})
	if c.server.Kind == FTPS {
		// With TLS 1.3 every second file or so is cut off, and the server says 426. curl closes the data connection
		// while the server's session tickets are unread, so the kernel resets it.
		args = append([]string{"--tls-max", "1.2"}, args...)
	}
	// Directories can only be made by changing into them.
	return append([]string{"--ftp-create-dirs"}, args...), err
}

// lftp mirrors with parallel connections.
func lftp(parallel int) func(command) ([]string, error) {
	return func(c command) ([]string, error) {
		script := []string{"set cmd:fail-exit yes", "set net:max-retries 1", "set ftp:use-mdtm no", "set ftp:sync-mode no"}
		if c.server.Kind == FTPS {
			script = append(script, "set ssl:ca-file "+quote(c.server.certificate()), "set ftp:ssl-allow-anonymous yes", "set ftp:ssl-force yes", "set ftp:ssl-protect-data yes")
		} else {
			script = append(script, "set ftp:ssl-allow no")
		}
		script = append(script, "open ftp://"+c.server.Address(),
			fmt.Sprintf("mirror --no-perms --parallel=%d %s %s", parallel, quote(c.work.Set), quote(filepath.Join(c.to(), c.setName()))))
		return []string{"--norc", "-c", strings.Join(script, "; ")}, nil
	}
}

// quote puts a word into double quotes, as lftp and sftp take it.
func quote(s string) string { return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"` }

func rsync(c command) ([]string, error) {
	return []string{"--recursive", "--times", "--whole-file", "--no-compress", c.set(),
		fmt.Sprintf("rsync://%s/place/%s/", c.server.Address(), c.work.To)}, nil
}

func rclone(c command) ([]string, error) {
	scheme := "http"
	args := []string{"--config", filepath.Join(c.server.dir, "rclone.conf")}
	if c.server.Kind == DAVS {
		scheme = "https"
		args = append(args, "--ca-cert", c.server.certificate())
	}
	return append(args, "copy", fmt.Sprintf(":webdav,url='%s://%s':%s", scheme, c.server.Address(), c.work.Set), filepath.Join(c.to(), c.setName())), nil
}

// ssh returns the common options of sftp and scp. The first cipher is OpenSSH's fastest on a processor with AES
// instructions.
func (c command) ssh() []string {
	args := []string{"-q"}
	for _, o := range []string{"IdentitiesOnly=yes", "BatchMode=yes", "StrictHostKeyChecking=yes",
		"IdentityFile=" + filepath.Join(c.server.dir, "user"), "UserKnownHostsFile=" + filepath.Join(c.server.dir, "known_hosts"),
		"Ciphers=aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com", "Compression=no"} {
		args = append(args, "-o", o)
	}
	return append(args, "-F", os.DevNull, "-P", fmt.Sprint(c.server.port))
}

func sftp(c command) ([]string, error) {
	batch := filepath.Join(c.dir, "sftp")
	text := fmt.Sprintf("put -R %s %s\n", quote(c.set()), quote(c.to()+"/"))
	if err := os.WriteFile(batch, []byte(text), 0o600); err != nil {
		return nil, unwritable(batch, err)
	}
	return append(c.ssh(), "-b", batch, c.place.Address), nil
}

func scp(c command) ([]string, error) {
	return append(c.ssh(), "-r", c.set(), c.place.Address+":"+c.to()+"/"), nil
}
