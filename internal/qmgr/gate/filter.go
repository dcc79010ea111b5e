package gate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxLine is the longest line that a server of NATS takes, in bytes: its max_control_line.
const maxLine = 4096

// connect holds the fields of CONNECT that clients with a JWT send. Other fields, such as passwords and tokens, have no
// part in a network with identities.
type connect struct {
	Echo         bool   `json:"echo"`
	Verbose      bool   `json:"verbose"`
	Pedantic     bool   `json:"pedantic"`
	JWT          string `json:"jwt"`
	Sig          string `json:"sig"`
	Name         string `json:"name"`
	Lang         string `json:"lang"`
	Version      string `json:"version"`
	Protocol     int    `json:"protocol"`
	Headers      bool   `json:"headers"`
	NoResponders bool   `json:"no_responders"`
}

// A filter passes the commands of a client on to a server. It writes every line anew, from its own parse of the line,
// so that the server cannot understand the same bytes otherwise. The protocol is that of docs.nats.io, "Client
// Protocol":
//
//	CONNECT {…}
//	PUB SUBJECT [REPLY] SIZE              and SIZE bytes in a line of their own
//	HPUB SUBJECT [REPLY] HEADER SIZE      likewise; HEADER of the SIZE bytes are headers
//	SUB SUBJECT [GROUP] ID
//	UNSUB ID [MOST]
//	PING
//	PONG
type filter struct {
	in       *bufio.Reader
	out      *bufio.Writer
	admit    func(jwt string) (Caller, error)
	admitted bool
	caller   Caller
	publish  func(Caller, Message) (time.Duration, *Replacement) // Config.Publish
	pause    func(time.Duration)
}

var (
	errLine    = errors.New("a line is too long")
	errUnknown = errors.New("that is no word of the protocol")
	errOrder   = errors.New("CONNECT comes first, and once")
)

// run passes on all commands until one side has gone or sends a command outside the protocol.
func (f *filter) run() error {
	for {
		if err := f.next(); err != nil {
			return err
		}
	}
}

// next passes on a line, and a message with its bytes.
func (f *filter) next() error {
	if here, _ := f.in.Peek(f.in.Buffered()); bytes.IndexByte(here, '\n') < 0 {
		if err := f.out.Flush(); err != nil { // the next line may be long in coming
			return err
		}
	}
	op, rest, size, err := readLine(f.in)
	if size > maxLine {
		return errLine
	}
	if err != nil {
		return err
	}

	if op == "CONNECT" {
		return f.connect(rest)
	}
	if !f.admitted {
		return errOrder
	}

	var words [5]string
	n := 0
	for w := range bytes.FieldsSeq(rest) {
		if n == len(words) || bytes.ContainsFunc(w, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return errUnknown
		}
		words[n] = string(w)
		n++
	}
	args := words[:n]

	switch {
	case op == "PUB" && (n == 2 || n == 3):
		return f.message(op, args, 1)
	case op == "HPUB" && (n == 3 || n == 4):
		return f.message(op, args, 2)
	case op == "SUB" && (n == 2 || n == 3) && f.caller.Subscribe != nil && !f.caller.Subscribe(args[0]):
		return f.line(op, []string{RefusedTicket, args[n-1]})
	case op == "SUB" && (n == 2 || n == 3), op == "UNSUB" && (n == 1 || n == 2), op == "PING" && n == 0, op == "PONG" && n == 0:
		return f.line(op, args)
	}
	return errUnknown
}

// readLine reads a line of at most the size of the buffer. It returns the first word in capitals, the rest, which is good until
// the next read, and the number of bytes.
func readLine(in *bufio.Reader) (op string, rest []byte, size int, err error) {
	line, err := in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", nil, len(line), errLine
	}
	if err != nil {
		return "", nil, len(line), err
	}
	size = len(line)
	line = bytes.TrimRight(line, "\r\n")
	if at := bytes.IndexAny(line, " \t"); at >= 0 {
		line, rest = line[:at], line[at+1:]
	}
	return strings.ToUpper(string(line)), rest, size, nil
}

// connect passes on the client's CONNECT once the client is admitted.
func (f *filter) connect(options []byte) error {
	if f.admitted {
		return errOrder
	}

	c := connect{Echo: true, Verbose: true, Pedantic: true} // the servers' defaults
	if err := json.Unmarshal(options, &c); err != nil {
		return fmt.Errorf("CONNECT: %w", err)
	}
	var err error
	if f.caller, err = f.admit(c.JWT); err != nil {
		return err
	}

	f.admitted = true
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return f.line("CONNECT", []string{string(text)})
}

// message passes on a message. The last words of its line are sizes.
func (f *filter) message(op string, args []string, sizes int) error {
	var header, size uint64
	for _, arg := range args[len(args)-sizes:] {
		var err error
		header = size
		if size, err = strconv.ParseUint(arg, 10, 31); err != nil {
			return fmt.Errorf("the size of a message: %w", err)
		}
	}
	if header > size {
		return errors.New("the headers of a message are longer than the message")
	}

	m := Message{Subject: args[0], Headers: sizes == 2, Size: int(size)}
	if len(args) > 1+sizes {
		m.Reply = args[1]
	}
	instead, err := f.decide(m)
	if err != nil {
		return err
	}
	if instead == nil {
		if err := f.line(op, args); err != nil {
			return err
		}
		if err := f.pass(m.Size); err != nil {
			return err
		}
		return f.ending()
	}
	args = []string{instead.Subject, instead.Reply, strconv.Itoa(len(instead.Body))}
	if instead.Reply == "" {
		args = slices.Delete(args, 1, 2)
	}
	if err := f.line("PUB", args); err != nil {
		return err
	}
	if _, err := f.out.Write(instead.Body); err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, f.in, int64(m.Size)); err != nil {
		return err
	}
	return f.ending()
}

// decide returns the message that is published instead of m; nil for m itself. It returns when that one is due.
func (f *filter) decide(m Message) (*Replacement, error) {
	switch {
	case f.caller.Replies != "" && (!literal(m.Subject) || m.Reply != "" && !literal(m.Reply)): // a subject of the server's interface ends with a filter
		return &Replacement{Subject: RefusedSubject}, nil
	case m.Reply != "" && !f.mayReply(m.Reply):
		return &Replacement{Subject: RefusedReply + m.Reply}, nil
	case f.caller.Publish != nil && !f.caller.Publish(m.Subject):
		return &Replacement{Subject: RefusedTicket}, nil
	case f.publish == nil:
		return nil, nil
	}
	wait, instead := f.publish(f.caller, m)
	if wait > 0 {
		if err := f.out.Flush(); err != nil {
			return nil, err
		}
		f.pause(wait)
	}
	return instead, nil
}

// literal reports whether a subject has no wildcard and no empty token. A server takes a wildcard in the subject of a message
// for a token like others, and stores the message. To remove messages by that subject would remove those of others. A reply
// becomes the subject of an answer, or of its refusal.
func literal(subject string) bool {
	if strings.IndexByte(subject, '*') >= 0 || strings.IndexByte(subject, '>') >= 0 {
		for token := range strings.SplitSeq(subject, ".") {
			if token == "*" || token == ">" {
				return false
			}
		}
	}
	return subject[0] != '.' && subject[len(subject)-1] != '.' && !strings.Contains(subject, "..")
}

// pass passes on the bytes of a message. Long ones go in large pieces and past the buffers: each piece costs a switch
// between two goroutines.
func (f *filter) pass(size int) error {
	if size < longMessage {
		_, err := io.CopyN(f.out, f.in, int64(size))
		return err
	}
	piece := pieces.Get().(*[]byte)
	defer pieces.Put(piece)
	for size > 0 {
		b := (*piece)[:min(size, pieceSize)]
		if _, err := io.ReadFull(f.in, b); err != nil {
			return err
		}
		if _, err := f.out.Write(b); err != nil {
			return err
		}
		size -= len(b)
	}
	return nil
}

const (
	longMessage = 32 << 10
	pieceSize   = 64 << 10
)

var pieces = sync.Pool{New: func() any { b := make([]byte, pieceSize); return &b }}

// ending passes on the end of a message's bytes.
func (f *filter) ending() error {
	var crlf [2]byte
	if _, err := io.ReadFull(f.in, crlf[:]); err != nil {
		return err
	}
	if string(crlf[:]) != "\r\n" {
		return errors.New("a message is longer than it says")
	}
	_, err := f.out.Write(crlf[:])
	return err
}

func (f *filter) mayReply(reply string) bool {
	return len(reply) > len(f.caller.Replies) && strings.HasPrefix(reply, f.caller.Replies)
}

func (f *filter) line(op string, args []string) error {
	f.out.WriteString(op)
	for _, a := range args {
		f.out.WriteByte(' ')
		f.out.WriteString(a)
	}
	_, err := f.out.WriteString("\r\n") // which repeats the error of those before
	return err
}
