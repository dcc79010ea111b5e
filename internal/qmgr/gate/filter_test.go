package gate

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

const hello = `CONNECT {"jwt":"j","sig":"s","name":"n","lang":"go","version":"1","protocol":1,"headers":true,"no_responders":true}` + "\r\n"

// passed returns the output of a filter for the commands of an agent ALPHA.
func passed(said string) (string, error) {
	var out bytes.Buffer
	f := &filter{in: bufio.NewReaderSize(strings.NewReader(said), inBuffer), out: bufio.NewWriter(&out),
		publish: func(_ Caller, m Message) (time.Duration, *Replacement) {
			switch {
			case len(m.Subject) > 30:
				return 0, &Replacement{Subject: RefusedSize}
			case m.Subject == "kept.back":
				return 0, &Replacement{"ferry.ask.qmgr.ALPHA", m.Reply, []byte("no")}
			case m.Subject == "later":
				return time.Hour, nil
			}
			return 0, nil
		},
		pause: func(time.Duration) { out.WriteString("paused,") },
		admit: func(jwt string) (Caller, error) {
			if jwt != "j" {
				return Caller{}, errors.New("the JWT is not known")
			}
			narrow := func(subject string) bool { return !strings.HasPrefix(subject, "no.") }
			return Caller{Token: "ALPHA", Role: "agent", Replies: "ferry.inbox.ALPHA.", Publish: narrow, Subscribe: narrow}, nil
		}}
	err := f.run()
	f.out.Flush()
	return out.String(), err
}

func TestFilter(t *testing.T) {
	greeted, err := passed(hello)
	if err != io.EOF || !strings.HasPrefix(greeted, `CONNECT {"echo":true,"verbose":true,"pedantic":true,"jwt":"j","sig":"s",`) {
		t.Fatalf("%q, %v", greeted, err)
	}
	long := strings.Repeat("x", 100<<10)
	for said, want := range map[string]string{
		"PING\r\nPONG\r\n":                                                        "PING\r\nPONG\r\n",
		"ping\n":                                                                  "PING\r\n",
		"SUB  a.>\t 1\r\nSUB a q 2\r\nUNSUB 1 5":                                  "SUB a.> 1\r\nSUB a q 2\r\n",
		"UNSUB 1 5\r\n":                                                           "UNSUB 1 5\r\n",
		"PUB a 3\r\nPUB\r\n":                                                      "PUB a 3\r\nPUB\r\n",
		"PUB\ta 0\r\n\r\n":                                                        "PUB a 0\r\n\r\n",
		"PUB a 0102400\r\n" + long + "\r\n":                                       "PUB a 0102400\r\n" + long + "\r\n",
		"HPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n":                                  "HPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
		"PUB a ferry.inbox.ALPHA.QM.x.1 2\r\nhi\r\n":                              "PUB a ferry.inbox.ALPHA.QM.x.1 2\r\nhi\r\n",
		"PUB a ferry.inbox.ALPHAX.y 2\r\nhi\r\nPING\r\n":                          "PUB ferry.refused.reply.ferry.inbox.ALPHAX.y 0\r\n\r\nPING\r\n",
		"PUB a ferry.inbox.ALPHA. 0\r\n\r\n":                                      "PUB ferry.refused.subject 0\r\n\r\n",
		"PUB " + strings.Repeat("a", 31) + " 2\r\nhi\r\nPING\r\n":                 "PUB ferry.refused.size 0\r\n\r\nPING\r\n",
		"HPUB a ferry.command.BETA.bob 2 4\r\nhihi\r\nPING\r\n":                   "PUB ferry.refused.reply.ferry.command.BETA.bob 0\r\n\r\nPING\r\n",
		"PUB kept.back 2\r\nhi\r\nPING\r\n":                                       "PUB ferry.ask.qmgr.ALPHA 2\r\nno\r\nPING\r\n",
		"PUB kept.back ferry.inbox.ALPHA.x 102400\r\n" + long + "\r\nPING\r\n":    "PUB ferry.ask.qmgr.ALPHA ferry.inbox.ALPHA.x 2\r\nno\r\nPING\r\n",
		"PING\r\nPUB later 2\r\nhi\r\n":                                           "PING\r\npaused,PUB later 2\r\nhi\r\n",
		"PUB ferry.control.*.a 2\r\nhi\r\nPING\r\n":                               "PUB ferry.refused.subject 0\r\n\r\nPING\r\n",
		"PUB * 0\r\n\r\nPUB > 0\r\n\r\nPUB a.> 0\r\n\r\n":                         strings.Repeat("PUB ferry.refused.subject 0\r\n\r\n", 3),
		"PUB a..b 0\r\n\r\nPUB .a 0\r\n\r\nPUB a. 0\r\n\r\n":                      strings.Repeat("PUB ferry.refused.subject 0\r\n\r\n", 3),
		"PUB a.*b.c>.>d 0\r\n\r\n":                                                "PUB a.*b.c>.>d 0\r\n\r\n",
		"PUB a $JS.API.STREAM.DELETE.FERRY_OWNER 0\r\n\r\n":                       "PUB ferry.refused.reply.$JS.API.STREAM.DELETE.FERRY_OWNER 0\r\n\r\n",
		"PUB a ferry.command.BETA.bob 102400\r\n" + long + "\r\nPING\r\n":         "PUB ferry.refused.reply.ferry.command.BETA.bob 0\r\n\r\nPING\r\n",
		"PUB a b.> 0\r\n\r\nPUB a *.b 0\r\n\r\nHPUB a b..c 2 2\r\nhi\r\n":         strings.Repeat("PUB ferry.refused.subject 0\r\n\r\n", 3),
		"PUB a ferry.inbox.ALPHA.* 0\r\n\r\nPUB a ferry.inbox.ALPHA.x. 0\r\n\r\n": strings.Repeat("PUB ferry.refused.subject 0\r\n\r\n", 2),
		"PUB no.x 2\r\nhi\r\nPING\r\n":                                            "PUB ferry.refused.ticket 0\r\n\r\nPING\r\n",
		"HPUB no.x 2 4\r\nhihi\r\nPING\r\n":                                       "PUB ferry.refused.ticket 0\r\n\r\nPING\r\n",
		"SUB no.> 7\r\nSUB no.x q 8\r\nSUB x 9\r\n":                               "SUB ferry.refused.ticket 7\r\nSUB ferry.refused.ticket 8\r\nSUB x 9\r\n",
	} {
		got, err := passed(hello + said)
		if (err != io.EOF && err != io.ErrUnexpectedEOF) || got != greeted+want {
			t.Errorf("%.60q: passed on is %.200q, %v", said, strings.TrimPrefix(got, greeted), err)
		}
	}
	for what, said := range map[string]string{
		"nothing is said first":     "PING\r\n",
		"no JSON":                   "CONNECT 1\r\n",
		"a JWT that is unknown":     `CONNECT {"jwt":"k"}` + "\r\n",
		"two of them":               hello + hello,
		"a word of servers":         hello + "INFO {}\r\n",
		"a word of queue managers":  hello + "RMSG a b 0\r\n\r\n",
		"too few words":             hello + "PUB a\r\n",
		"too many words":            hello + "PUB a ferry.inbox.ALPHA.x 1 2\r\nhi\r\n",
		"a word more":               hello + "PING x\r\n",
		"a size that is none":       hello + "PUB a -1\r\n\r\n",
		"a size of headers, none":   hello + "HPUB 0 A 00\r\n\r\n",
		"headers beyond a message":  hello + "HPUB a 3 2\r\nhi\r\n",
		"a size beyond all":         hello + "PUB a 99999999999999\r\n\r\n",
		"bytes beyond the size":     hello + "PUB a 1\r\nhi\r\n",
		"a control byte":            hello + "SUB a\x00b 1\r\n",
		"a carriage return between": hello + "PUB a ferry.inbox.ALPHA.x\rferry.command.BETA.bob 0\r\n\r\n",
		"a line without end":        hello + "SUB " + strings.Repeat("a", 5000) + "\r\n",
		"one with a buffer's":       hello + "SUB " + strings.Repeat("a", 1<<20),
	} {
		got, err := passed(said)
		if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v, and passed on is %.200q", what, err, got)
		}
	}
}

// canonical are the lines of a filter's output. They are read here by other means.
var canonical = regexp.MustCompile(`^(CONNECT (\{.*\})|PUB ([^ ]+)( ([^ ]+))? ([0-9]+)|HPUB ([^ ]+)( ([^ ]+))? [0-9]+ ([0-9]+)|SUB [^ ]+( [^ ]+)? [^ ]+|UNSUB [^ ]+( [^ ]+)?|PING|PONG)$`)

// For any input of a client, the output is of the protocol, and names no reply that is not the client's own.
func FuzzFilter(f *testing.F) {
	for _, s := range []string{
		hello + "PING\r\n", hello + "PUB a ferry.inbox.ALPHA.x 2\r\nhi\r\nSUB a 1\r\n", hello + "HPUB a b 2 4\r\nhihi\r\n",
		hello + "PUB a b 2\r\nhi\r\nUNSUB 1\r\n", hello + "pub a  b\t2\r\nhi\r\n", hello + "PUB a\rb 2\r\nhi\r\n",
		hello + "PUB a.*.b 2\r\nhi\r\n", hello + "PUB kept.back 2\r\nhi\r\n", hello + "PUB a..> 0\r\n\r\n",
		hello + "PUB a b.> 0\r\n\r\n", hello + "PUB a b..c 0\r\n\r\n", hello + "HPUB a * 2 2\r\nhi\r\n", hello + "PUB a ferry.inbox.ALPHA.* 0\r\n\r\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, said string) {
		out, _ := passed(said)
		for out != "" {
			line, rest, whole := strings.Cut(out, "\r\n")
			m := canonical.FindStringSubmatch(line)
			if m == nil || !whole {
				t.Fatalf("passed on is %q", line)
			}
			out = rest
			reply, size := m[5]+m[9], m[6]+m[10]
			for token := range strings.SplitSeq(m[3]+m[7], ".") {
				if token == "*" || token == ">" || token == "" && size != "" {
					t.Fatalf("it is published on %q", m[3]+m[7])
				}
			}
			if reply != "" && (!strings.HasPrefix(reply, "ferry.inbox.ALPHA.") || !literal(reply)) {
				t.Fatalf("it names the reply %q", reply)
			}
			if size == "" {
				continue
			}
			n, err := strconv.Atoi(size)
			if err != nil || n < 0 {
				t.Fatalf("it has the size %q", size)
			}
			if len(out) < n+2 {
				return // the client has not sent the rest
			}
			if out[n:n+2] != "\r\n" {
				t.Fatalf("%d bytes are not the end of a message: %q", n, out)
			}
			out = out[n+2:]
		}
	})
}
