package gate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// rules are a PeerFilter for the subjects with a last token in may.
type rules struct{ may map[string]bool }

func (r *rules) Hears(subject string) (bool, string) {
	on := subject[strings.LastIndexByte(subject, '.')+1:]
	if strings.HasPrefix(subject, "never") {
		return false, ""
	}
	return r.may[on], on
}

func (r *rules) Says(subject, reply string) bool {
	return r.may[subject[strings.LastIndexByte(subject, '.')+1:]] && !strings.HasPrefix(reply, "$")
}
func (r *rules) Admits(_ string, size int) bool { return size != paced }
func (r *rules) Body(subject string) bool       { return strings.HasPrefix(subject, "place") }
func (r *rules) Read(_ string, body []byte) (bool, error) {
	switch string(body) {
	case "new":
		return true, nil
	case "known":
		return false, nil
	}
	return false, errors.New("the place cannot be read")
}

// paced is a message beyond the pace of its speaker, by its size.
const paced = 77

// linkOf returns a Link that has read the lines of a peer, with the lines that it has passed on.
func linkOf(said string, r *rules) (*Link, *bytes.Buffer, error) {
	var out bytes.Buffer
	l := newLink(bufio.NewReaderSize(strings.NewReader(said), maxLinkLine), bufio.NewWriter(&out))
	err := l.run(l.dialled("TWO", r))
	l.out.Flush()
	return l, &out, err
}

const leafGreeting = `INFO {"server_id":"x","server_name":"TWO","nonce":"n","tls_required":true,"compression":"s2","max_payload":1,"import":{"allow":["a"]},"leafnode_urls":["192.0.2.1:4222"]}` + "\r\n"

func TestLink(t *testing.T) {
	r := &rules{may: map[string]bool{"A": true}}
	l, out, err := linkOf(leafGreeting, r)
	greeted := out.String()
	if err != io.EOF || l == nil || strings.Contains(greeted, "tls_required") || strings.Contains(greeted, "compression") || strings.Contains(greeted, "192.0.2.1") || !strings.Contains(greeted, `"import":{"allow":["a"]}`) {
		t.Fatalf("%q, %v", greeted, err)
	}
	long := strings.Repeat("x", 100<<10)
	for said, x := range map[string]struct {
		want    string
		refused uint64
		unheard int64
	}{
		"PING\r\nPONG\r\nping\n": {"PING\r\nPONG\r\nPING\r\n", 0, 0},
		"-ERR 'Loop'\r\n":        {"-ERR 'Loop'\r\n", 0, 0},
		"LS+ x.A\r\nLS+ x.A\tg 2\r\nLS- x.A\r\nLS- x.A g\r\n":                        {"LS+ x.A\r\nLS+ x.A g 2\r\nLS- x.A\r\nLS- x.A g\r\n", 0, 0},
		"LS+ x.B\r\nLS+ y.B g 1\r\n":                                                 {"", 0, 2},
		"LS+ x.B\r\nLS- x.B\r\nLS- x.B\r\n":                                          {"", 0, 0},
		"LS+ never.A\r\nLS+ ferry.never.A\r\n":                                       {"LS+ ferry.never.A\r\n", 0, 0},
		"LMSG x.A 2\r\nhi\r\n":                                                       {"LMSG x.A 2\r\nhi\r\n", 0, 0},
		"LMSG x.A r 2\r\nhi\r\nLMSG x.A $r 2\r\nhi\r\n":                              {"LMSG x.A r 2\r\nhi\r\n", 1, 0},
		"LMSG x.A + r g h 2\r\nhi\r\nLMSG x.A | g 2\r\nhi\r\n":                       {"LMSG x.A + r g h 2\r\nhi\r\nLMSG x.A | g 2\r\nhi\r\n", 0, 0},
		"LMSG x.A + $r g 2\r\nhi\r\n":                                                {"", 1, 0},
		"LMSG x.B 0102400\r\n" + long + "\r\nPING\r\n":                               {"PING\r\n", 1, 0},
		"LMSG x.A 102400\r\n" + long + "\r\n":                                        {"LMSG x.A 102400\r\n" + long + "\r\n", 0, 0},
		"HMSG x.A 12 14\r\nNATS/1.0\r\n\r\nhi\r\n":                                   {"HMSG x.A 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", 0, 0},
		"HMSG x.A r 12 14\r\nNATS/1.0\r\n\r\nhi\r\n":                                 {"HMSG x.A r 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", 0, 0},
		"HMSG x.A 38 38\r\nNATS/1.0\r\nnats-TRACE-Dest: ferry.x\r\n\r\n\r\nPING\r\n": {"PING\r\n", 1, 0},
		"HMSG x.A 5000 5000\r\n" + strings.Repeat("y", 5000) + "\r\nPING\r\n":        {"PING\r\n", 1, 0},
		"LMSG x.A 77\r\n" + long[:paced] + "\r\nHMSG x.A 12 77\r\nNATS/1.0\r\n\r\n" + long[:paced-12] + "\r\nPING\r\n": {"PING\r\n", 2, 0},
		"LMSG place.A 3\r\nnew\r\nLMSG place.A 5\r\nknown\r\nLMSG place.A 3\r\nbad\r\n":                                {"LMSG place.A 3\r\nnew\r\n", 1, 0},
		"HMSG place.A 12 15\r\nNATS/1.0\r\n\r\nbad\r\nHMSG place.A 12 15\r\nNATS/1.0\r\n\r\nnew\r\nPING\r\n":           {"PING\r\n", 2, 0},
		"LMSG place.A 102400\r\n" + long + "\r\nPING\r\n":                                                              {"PING\r\n", 1, 0},
	} {
		l, out, err := linkOf(leafGreeting+said, r)
		refused, unheard := l.Refused()
		if got := strings.TrimPrefix(out.String(), greeted); err != io.EOF || got != x.want || refused != x.refused || unheard != x.unheard {
			t.Errorf("%.60q: passed on is %.200q, %v; refused are %d messages and %d subjects", said, got, err, refused, unheard)
		}
	}
	for what, said := range map[string]string{
		"nothing first":         "PING\r\n",
		"another name":          strings.Replace(leafGreeting, "TWO", "THREE", 1),
		"CONNECT":               leafGreeting + "CONNECT {}\r\n",
		"a client's words":      leafGreeting + "SUB x.A 1\r\n",
		"a route's":             leafGreeting + "RMSG x.A 0\r\n\r\n",
		"an account's":          leafGreeting + "A+ x\r\n",
		"no size":               leafGreeting + "LMSG x.A x\r\n",
		"a size below zero":     leafGreeting + "LMSG x.A -1\r\n",
		"a large size":          leafGreeting + "LMSG x.A 99999999999\r\n",
		"no indicator":          leafGreeting + "LMSG x.A r g 2\r\nhi\r\n",
		"more headers":          leafGreeting + "HMSG x.A 3 2\r\nhi\r\n",
		"a longer message":      leafGreeting + "LMSG x.A 2\r\nhiho\r\n",
		"a weight of none":      leafGreeting + "LS+ x.A g 0\r\n",
		"a control character":   leafGreeting + "LS+ x\x00.A\r\n",
		"a carriage return":     leafGreeting + "LS+ x\rLS+ y.A\r\n",
		"a long line":           leafGreeting + "LS+ " + strings.Repeat("x", maxLine) + ".A\r\n",
		"a line without an end": leafGreeting + strings.Repeat("x", 2*maxLinkLine),
	} {
		if _, _, err := linkOf(said, r); err == nil || err == io.EOF {
			t.Errorf("%s passes: %v", what, err)
		}
	}
}

// A subject that the peer may not hear yet is passed on when it may, and taken back when it may not any more.
func TestALinkKeepsWhatThePeerWants(t *testing.T) {
	in, said := io.Pipe()
	got, out := io.Pipe()
	r := &rules{may: map[string]bool{"A": true}}
	l := newLink(bufio.NewReader(in), bufio.NewWriter(out))
	done := make(chan error, 1)
	go func() { done <- l.run(l.dialled("TWO", r)); out.Close() }()
	lines := bufio.NewScanner(got)
	next := func() string { lines.Scan(); return lines.Text() }
	fmt.Fprint(said, leafGreeting+"LS+ x.A\r\nLS+ x.B\r\nLS+ y.B g 3\r\nPING\r\n")
	for _, want := range []string{"INFO", "LS+ x.A", "PING"} {
		if line := next(); !strings.HasPrefix(line, want) {
			t.Fatalf("%q, and not %q", line, want)
		}
	}
	set := func(may map[string]bool) { // between two messages
		l.mu.Lock()
		r.may = may
		l.mu.Unlock()
	}
	set(map[string]bool{"B": true})
	l.Changed("B")
	if a, b := next(), next(); a == b || a != "LS+ x.B" && a != "LS+ y.B g 3" {
		t.Errorf("B is heard with %q and %q", a, b)
	}
	l.Changed("A", "B")
	if line := next(); line != "LS- x.A" {
		t.Errorf("%q", line)
	}
	set(map[string]bool{})
	l.Changed("")
	if a, b := next(), next(); a == b || a != "LS- x.B" && a != "LS- y.B g" {
		t.Errorf("B is heard no more with %q and %q", a, b)
	}
	if messages, subjects := l.Refused(); messages != 0 || subjects != 3 {
		t.Errorf("refused are %d messages and %d subjects", messages, subjects)
	}
	said.Close()
	if err := <-done; err != io.EOF {
		t.Error(err)
	}
}

// From any bytes of a peer the server gets lines of the protocol of leafnodes alone, on subjects that the PeerFilter allows.
func FuzzLink(f *testing.F) {
	for _, s := range []string{"LS+ x.A\r\n", "LS+ x.B g 1\r\n", "LMSG x.A 2\r\nhi\r\n", "LMSG x.A + r g 2\r\nhi\r\n", "HMSG x.A 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", "LMSG place.A 3\r\nnew\r\n", "-ERR 'x'\r\n", "INFO {}\r\n", "LS- x.A\r\n", "LMSG x.B 2\r\nLS+ y.B\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		_, out, _ := linkOf(leafGreeting+string(said), &rules{may: map[string]bool{"A": true}})
		in := bufio.NewReader(out)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			words := strings.Fields(line)
			if len(words) == 0 || !strings.HasSuffix(line, "\r\n") || strings.ContainsAny(strings.TrimSuffix(line, "\r\n"), "\r\x00") {
				t.Fatalf("a line is %q", line)
			}
			switch words[0] {
			case "INFO", "PING", "PONG", "-ERR":
			case "LS+", "LS-":
				if !strings.HasSuffix(words[1], ".A") && words[1] != "A" {
					t.Fatalf("passed on is %q", line)
				}
			case "LMSG", "HMSG":
				if !strings.HasSuffix(words[1], ".A") && words[1] != "A" {
					t.Fatalf("passed on is %q", line)
				}
				var size int
				if _, err := fmt.Sscan(words[len(words)-1], &size); err != nil {
					t.Fatal(err)
				}
				if _, err := in.Discard(size + 2); err != nil {
					return // the peer has sent no more
				}
			default:
				t.Fatalf("a line is %q", line)
			}
		}
	})
}

// A peer that subscribes very many subjects, or very long ones, does not use up the memory of the queue manager. It is
// not cut off.
func TestSubjectsOfAPeerAreBounded(t *testing.T) {
	for _, size := range []int{10, 4000} {
		var said strings.Builder
		said.WriteString(leafGreeting)
		n := min(maxWants+1000, maxWantBytes/size+1000)
		for k := range n {
			fmt.Fprintf(&said, "LS+ %0*d.A\r\n", size, k)
		}
		said.WriteString("PING\r\n")
		l, out, err := linkOf(said.String(), &rules{may: map[string]bool{"A": true}})
		if err != io.EOF || !strings.HasSuffix(out.String(), "PING\r\n") {
			t.Fatalf("the link ends with %v", err)
		}
		passed := strings.Count(out.String(), "LS+ ")
		if refused, _ := l.Refused(); passed > maxWants || l.room > maxWantBytes || passed+int(refused) != n || refused < 500 {
			t.Errorf("of %d subjects of %d bytes %d are passed on and %d refused; they take %d bytes", n, size, passed, refused, l.room)
		}
		for k := range n {
			if err := l.unwanted(fmt.Sprintf("%0*d.A", size, k)); err != nil {
				t.Fatal(err)
			}
		}
		if l.room != 0 {
			t.Errorf("no subject takes %d bytes", l.room)
		}
	}
}
