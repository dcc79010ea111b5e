//go:build linux

package host_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ferry/test/flow/network"
)

// ports returns the ports of listening processes in this network namespace.
func ports(t *testing.T) (all []int) {
	t.Helper()
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		data, err := os.ReadFile(file)
		must(t, err)
		for _, line := range strings.Split(string(data), "\n")[1:] {
			f := strings.Fields(line)
			if len(f) < 4 || f[3] != "0A" {
				continue
			}
			_, hex, _ := strings.Cut(f[1], ":")
			p, err := strconv.ParseInt(hex, 16, 32)
			must(t, err)
			all = append(all, int(p))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// expected returns the ports that docs/security.md names: the queue manager's, that of each agent's direct lane, and,
// while a token is open, the one for joiners.
func expected(t *testing.T, n *network.Network, joiners bool) (all []int) {
	t.Helper()
	u, err := url.Parse(n.URL())
	must(t, err)
	port, err := strconv.Atoi(u.Port())
	must(t, err)
	all = append(all, port)
	if joiners {
		all = append(all, port+1)
	}
	direct := regexp.MustCompile(`addresses="?\[127\.0\.0\.1:(\d+)\]`)
	for _, who := range []string{"ALPHA", "BETA"} {
		m := direct.FindStringSubmatch(n.Wrote(who))
		if m == nil {
			t.Fatalf("%s does not say where its direct lane listens:\n%s", who, n.Wrote(who))
		}
		p, err := strconv.Atoi(m[1])
		must(t, err)
		all = append(all, p)
	}
	slices.Sort(all)
	return all
}

// TestPorts expects only the documented ports to be open. No port answers in clear, before TLS 1.3, or without a client
// certificate.
func TestPorts(t *testing.T) {
	n := up(t, nil)
	if got, want := ports(t), expected(t, n, false); !slices.Equal(got, want) {
		t.Errorf("ports %v are open, want %v", got, want)
	}
	n.Ferry("token", "create", "--user", "bob").OK()
	joiners := func() bool { return slices.Equal(ports(t), expected(t, n, true)) }
	for end := time.Now().Add(90 * time.Second); !joiners(); {
		if time.Now().After(end) {
			t.Fatalf("with a token ports %v are open, want %v", ports(t), expected(t, n, true))
		}
	}
	for _, port := range expected(t, n, true) {
		at := fmt.Sprintf("127.0.0.1:%d", port)
		for _, say := range []string{"PING\r\n", "GET / HTTP/1.1\r\n\r\n", "CONNECT {}\r\n", "\x16\x03\x01\x00\x00", strings.Repeat("x", 1<<16)} {
			if said := hear(t, at, say); strings.Contains(said, "INFO") || strings.Contains(said, "ferry") || strings.Contains(said, "nats") {
				t.Errorf("port %d answers %.20q with %q", port, say, said)
			}
		}
		for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12} {
			c, err := tls.Dial("tcp", at, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
			if err == nil {
				t.Errorf("port %d speaks TLS %x", port, version)
				c.Close()
			}
		}
	}
	n.Send("-r", "ALPHA:in", "BETA:out/").Ends("successful", 0)
}

// hear sends text to a port and returns the answer.
func hear(t *testing.T, at, say string) string {
	t.Helper()
	c, err := net.Dial("tcp", at)
	must(t, err)
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Second))
	c.Write([]byte(say))
	b, _ := io.ReadAll(io.LimitReader(c, 4096))
	return string(b)
}

// TestStrangers connects thousands of strangers from as many addresses to every port. Some are silent, some slow, and
// some send data. Transfers continue over both lanes, and memory does not grow with the number of strangers.
func TestStrangers(t *testing.T) {
	n := up(t, nil)
	n.File("ALPHA", "big", 7, 16<<20)
	n.Send("ALPHA:big", "BETA:warm").Ends("successful", 0)
	before := memory(t, n)
	all := expected(t, n, false)
	many := count(600, 10_000)

	stop := make(chan struct{})
	var wg sync.WaitGroup
	slots := make(chan struct{}, 1500) // descriptors of this process
	wg.Go(func() {
		for k := range many {
			select {
			case slots <- struct{}{}:
			case <-stop:
				return
			}
			wg.Go(func() {
				defer func() { <-slots }()
				strange(k, all[k%len(all)], stop)
			})
		}
	})
	for k := range count(4, 20) {
		for _, lane := range []string{"direct", "queue"} {
			n.Send("--lane", lane, "ALPHA:big", fmt.Sprintf("BETA:%s%d", lane, k)).Ends("successful", 0)
		}
	}
	after := memory(t, n)
	t.Logf("%d strangers; memory of all processes %d MiB before, %d MiB after", many, before>>20, after>>20)
	if after > before+256<<20 {
		t.Errorf("memory grew from %d to %d MiB", before>>20, after>>20)
	}
	close(stop)
	wg.Wait()
	n.Send("ALPHA:big", "BETA:last").Ends("successful", 0)
}

// memory returns the resident memory of all processes, in bytes.
func memory(t *testing.T, n *network.Network) (sum int64) {
	t.Helper()
	for _, who := range []string{network.QM, "ALPHA", "BETA"} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.Pid(who)))
		must(t, err)
		m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(data)
		if m == nil {
			t.Fatalf("there is no VmRSS of %s", who)
		}
		kib, err := strconv.ParseInt(string(m[1]), 10, 64)
		must(t, err)
		sum += kib << 10
	}
	return sum
}

// strange is one stranger, from an address of its own.
func strange(k, port int, stop <-chan struct{}) {
	from := &net.TCPAddr{IP: net.IPv4(127, 1+byte(k>>16), byte(k>>8), 1+byte(k%250))}
	d := net.Dialer{LocalAddr: from, Timeout: 5 * time.Second}
	c, err := d.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return // there was no room
	}
	defer c.Close()
	leave := time.NewTimer(3 * time.Second)
	defer leave.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	switch k % 3 {
	case 1:
		c.Write([]byte(strings.Repeat("\x16\x03\x01\x40\x00", 4000)))
	case 2:
		tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake()
	}
	for {
		select {
		case <-tick.C:
			if _, err := c.Write([]byte{0x16}); k%3 == 0 && err != nil {
				return
			}
		case <-leave.C:
			return
		case <-stop:
			return
		}
	}
}

// TestScanners expects scanners to find only documented ports and properties.
func TestScanners(t *testing.T) {
	if !full {
		t.Log("nmap and testssl.sh are for the full form")
		return
	}
	install(t, "nmap", "nmap")
	install(t, "testssl", "testssl.sh")
	n := up(t, nil)
	want := expected(t, n, false)
	out, err := exec.Command("nmap", "-Pn", "-sT", "-p-", "-oG", "-", "127.0.0.1").CombinedOutput()
	must(t, err)
	var got []int
	for _, m := range regexp.MustCompile(`(\d+)/open/tcp`).FindAllStringSubmatch(string(out), -1) {
		p, err := strconv.Atoi(m[1])
		must(t, err)
		got = append(got, p)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("nmap finds ports %v open, want %v:\n%s", got, want, out)
	}
	for _, port := range want {
		file := filepath.Join(t.TempDir(), "testssl.csv")
		c := exec.Command("testssl", "--quiet", "--warnings", "batch", "--protocols", "--csvfile", file, fmt.Sprintf("127.0.0.1:%d", port))
		out, _ := c.CombinedOutput() // its code counts its findings
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("testssl.sh: %v\n%s", err, out)
		}
		for _, line := range strings.Split(string(data), "\n") {
			for _, old := range []string{`"SSLv2"`, `"SSLv3"`, `"TLS1"`, `"TLS1_1"`, `"TLS1_2"`} {
				if strings.HasPrefix(line, old) && !strings.Contains(line, "not offered") {
					t.Errorf("port %d: %s", port, line)
				}
			}
		}
	}
	n.Send("-r", "ALPHA:in", "BETA:out/").Ends("successful", 0)
}

// install fails the test if a program is missing, and names the Debian package that has it.
func install(t *testing.T, program, pkg string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	t.Fatalf("%s is not installed; scripts/attacks.sh installs %s", program, pkg)
}
