package gate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Anyone is the token on of PeerFilter.Hears for subjects that depend on all identities behind a channel. A Link is
// slower to look at them again.
const Anyone = "*"

// A PeerFilter decides for one peer of a channel, another queue manager, which messages the peer may hear and publish
// here. The methods may be called from any goroutine.
type PeerFilter interface {
	// Hears reports whether the peer may hear messages of a subject, which may have wildcards. The answer may change when
	// Link.Changed is called with the token on, or with "".
	Hears(subject string) (ok bool, on string)
	// Says reports whether the peer may publish on a subject. reply is the reply that the message names; "" for none.
	Says(subject, reply string) bool
	// Admits charges a message that Says allows, with the size of its body and headers, and reports whether it passes. A message
	// beyond the pace of its speaker is dropped: a wait would hold up all other messages of the channel.
	Admits(subject string, size int) bool
	// Body reports whether Read takes the body of each message on a subject before the message passes.
	Body(subject string) bool
	// Read takes the body of a message that Says allows, and reports whether the message passes. A message with an error
	// counts as refused.
	Read(subject string, body []byte) (pass bool, err error)
}

// Limits of a Link.
const (
	maxLinkLine   = 64 << 10 // bytes of CONNECT and INFO, which list rights
	maxLinkHeader = 4 << 10  // bytes of the headers of a message
	maxLinkBody   = 64 << 10 // bytes of a message that PeerFilter.Read takes
	maxRefused    = 100_000  // subjects that the peer may not hear at present
	maxWants      = 1 << 19  // subjects that the peer may subscribe; the server takes no more of a connection
	maxWantBytes  = 64 << 20 // bytes of these subjects

	// A Link asks its PeerFilter again about lookRate subjects a second, and about lookAhead at once. A peer with very
	// many subjects, with frequent changes of its identities, hears later.
	lookRate  = 20_000
	lookAhead = 1_000_000
	lookPause = 50 * time.Millisecond // before it looks at the subjects that are left
)

// A Link passes on to a server the messages of its peer over a connection of a channel, as its PeerFilter allows. It
// writes every line anew. The protocol is the protocol of leafnodes:
//
//	CONNECT {…}                            first, of a peer that dials
//	INFO {…}                               first, of a peer that accepts; more may follow
//	LS+ SUBJECT [GROUP WEIGHT]             the peer wants to hear messages of the subject
//	LS- SUBJECT [GROUP]
//	LMSG SUBJECT [REPLY] SIZE              and SIZE bytes in a line of their own
//	LMSG SUBJECT + REPLY GROUP… SIZE       likewise, to one subscriber of each group,
//	LMSG SUBJECT | GROUP… SIZE
//	HMSG SUBJECT … HEADER SIZE             likewise; HEADER of the SIZE bytes are headers
//	PING, PONG, -ERR 'TEXT'
//
// A subject that the peer may not hear is kept: a leafnode names each subject once. The subject is passed on when the
// PeerFilter allows it, and taken back when the PeerFilter does not allow it any more.
type Link struct {
	in   *bufio.Reader
	p    PeerFilter
	body filter // passes on the bytes of messages

	mu    sync.Mutex // held for each line and message that is written
	out   *bufio.Writer
	wants map[string]*want            // by subject and group
	room  int                         // bytes of wants
	on    map[string]map[string]*want // by PeerFilter.Hears's on, then likewise

	pending sync.Mutex
	tokens  map[string]bool // of Changed, until the link has looked; "" for all
	wake    chan struct{}
	over    chan struct{} // closed when the connection has ended
	stale   atomic.Bool   // tokens has new ones beside Anyone

	soon, later *rate.Limiter // of the subjects of looks; a look may take more than is left

	refused atomic.Uint64 // messages that were not passed on
	kept    atomic.Int64  // subjects that the peer may not hear at present
}

// A want is a subject that the peer has subscribed.
type want struct {
	line   string // behind LS+
	key    string // behind LS-
	on     string
	passed bool
}

// Refused returns the number of messages that the link has not passed on, and the number of subjects that the peer may
// not hear at present.
func (l *Link) Refused() (messages uint64, subjects int64) { return l.refused.Load(), l.kept.Load() }

// Changed has the link ask its PeerFilter again about subjects that depend on a token; "" stands for all subjects.
func (l *Link) Changed(tokens ...string) {
	l.pending.Lock()
	for _, t := range tokens {
		l.tokens[t] = true
		if t != Anyone {
			l.stale.Store(true)
		}
	}
	l.pending.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func newLink(in *bufio.Reader, out *bufio.Writer) *Link {
	pace := func() *rate.Limiter { return rate.NewLimiter(lookRate, lookAhead) }
	return &Link{soon: pace(), later: pace(), in: in, out: out, body: filter{in: in, out: out}, wants: map[string]*want{}, on: map[string]map[string]*want{}, tokens: map[string]bool{}, wake: make(chan struct{}, 1), over: make(chan struct{})}
}

// run passes on lines until one side ends the connection or the peer violates the protocol. first reads each CONNECT and INFO.
func (l *Link) run(first func(op string, text []byte) (line []byte, err error)) error {
	var looks sync.WaitGroup
	defer looks.Wait()
	defer close(l.over)
	looks.Go(l.looking)
	for {
		if err := l.next(first); err != nil {
			return err
		}
	}
}

// looking asks the PeerFilter again after each Changed, until the connection has ended.
func (l *Link) looking() {
	t := time.NewTimer(lookPause)
	defer t.Stop()
	for left := false; ; left = l.look(true) {
		t.Reset(lookPause)
		again := t.C
		if !left {
			again = nil
		}
		select {
		case <-l.wake:
		case <-again:
		case <-l.over:
			return
		}
	}
}

// look asks the PeerFilter again about the subjects of Changed; about those on Anyone if all is set. It reports whether
// some are left for later.
func (l *Link) look(all bool) (left bool) {
	l.mu.Lock() // until the subjects are judged: no message passes meanwhile
	defer l.mu.Unlock()
	tokens, left := l.due(all)
	if l.p == nil {
		return left
	}
	if tokens[""] {
		l.judgeAll(l.wants, l.soon)
		delete(tokens, Anyone)
	} else {
		for t := range tokens {
			l.judgeAll(l.on[t], l.paceOf(t))
		}
	}
	l.out.Flush() // or the next line reports the end of the connection
	return left
}

// due takes the tokens of Changed that the link may look at now.
func (l *Link) due(all bool) (tokens map[string]bool, left bool) {
	l.pending.Lock()
	defer l.pending.Unlock()
	tokens, now := map[string]bool{}, time.Now()
	for t := range l.tokens {
		if (all || t != Anyone) && l.paceOf(t).TokensAt(now) > 0 {
			tokens[t] = true
			delete(l.tokens, t)
		}
	}
	l.stale.Store(false)
	return tokens, len(l.tokens) > 0
}

// paceOf bounds the looks at the subjects on a token. Those on Anyone change often, and may wait.
func (l *Link) paceOf(token string) *rate.Limiter {
	if token == Anyone {
		return l.later
	}
	return l.soon
}

func (l *Link) judgeAll(wants map[string]*want, pace *rate.Limiter) {
	pace.ReserveN(time.Now(), len(wants))
	for _, w := range wants {
		l.judge(w)
	}
}

// judge passes a subject on, or takes it back. l.mu is held.
func (l *Link) judge(w *want) {
	ok, _ := l.p.Hears(subjectOf(w.line))
	switch {
	case ok && !w.passed:
		l.keeps(w, -1)
		l.line("LS+", w.line)
	case !ok && w.passed:
		l.keeps(w, 1)
		l.line("LS-", w.key)
	}
	w.passed = ok
}

// keeps counts a subject that the peer may not hear, but for those of the library's own.
func (l *Link) keeps(w *want, n int64) {
	if !strings.HasPrefix(w.line, "$") {
		l.kept.Add(n)
	}
}

func subjectOf(line string) string {
	subject, _, _ := strings.Cut(line, " ")
	return subject
}

// next passes on a line, and a message with its bytes.
func (l *Link) next(first func(string, []byte) ([]byte, error)) error {
	if l.stale.Load() { // a registration comes before the messages that follow it
		l.look(false)
	}
	if here, _ := l.in.Peek(l.in.Buffered()); bytes.IndexByte(here, '\n') < 0 {
		if err := l.flush(); err != nil { // the next line may be long in coming
			return err
		}
	}
	op, rest, size, err := readLine(l.in)
	if err != nil {
		return err
	}
	if op == "CONNECT" || op == "INFO" {
		text, err := first(op, rest)
		if err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.out.WriteString(op + " ")
		l.out.Write(text)
		_, err = l.out.WriteString("\r\n")
		return err
	}
	if l.p == nil && op != "-ERR" {
		return errOrder
	}
	if size > maxLine {
		return errLine
	}
	if bytes.ContainsFunc(rest, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
		return errUnknown
	}
	words := strings.Fields(string(rest))
	n := len(words)
	switch {
	case op == "LMSG" && n >= 2:
		return l.message(op, words, 1)
	case op == "HMSG" && n >= 3:
		return l.message(op, words, 2)
	case op == "LS+" && (n == 1 || n == 3):
		return l.wanted(words)
	case op == "LS-" && (n == 1 || n == 2):
		return l.unwanted(strings.Join(words, " "))
	case (op == "PING" || op == "PONG") && n == 0, op == "-ERR":
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.line(op, words...)
	}
	return errUnknown
}

func (l *Link) flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Flush()
}

// wanted takes a subscription of the peer.
func (l *Link) wanted(words []string) error {
	w := &want{line: strings.Join(words, " "), key: strings.Join(words[:min(len(words), 2)], " ")}
	if len(words) == 3 {
		if weight, err := strconv.ParseUint(words[2], 10, 31); err != nil || weight == 0 {
			return errUnknown
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, w.on = l.p.Hears(words[0])
	if was, known := l.wants[w.key]; known {
		was.line = w.line // another weight
		if was.passed {
			return l.line("LS+", w.line)
		}
		return nil
	}
	if len(l.wants) >= maxWants || l.room+len(w.key) > maxWantBytes {
		l.refused.Add(1)
		return nil
	}
	l.keeps(w, 1)
	l.judge(w)
	if !w.passed && (w.on == "" || l.kept.Load() > maxRefused) {
		if w.on == "" { // never
			l.keeps(w, -1)
			if !strings.HasPrefix(w.line, "ferry.") {
				return nil // of the library's own, which every leafnode asks for
			}
		}
		l.refused.Add(1)
		return nil
	}
	l.wants[w.key] = w
	l.room += len(w.key)
	if l.on[w.on] == nil {
		l.on[w.on] = map[string]*want{}
	}
	l.on[w.on][w.key] = w
	return nil
}

// unwanted takes the end of a subscription of the peer.
func (l *Link) unwanted(key string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	w, known := l.wants[key]
	if !known {
		return nil
	}
	delete(l.wants, key)
	l.room -= len(w.key)
	if delete(l.on[w.on], key); len(l.on[w.on]) == 0 {
		delete(l.on, w.on)
	}
	if !w.passed {
		l.keeps(w, -1)
		return nil
	}
	return l.line("LS-", key)
}

// message passes on a message, if the peer may publish it. The last words of its line are sizes.
func (l *Link) message(op string, words []string, sizes int) error {
	var header, size uint64
	for _, word := range words[len(words)-sizes:] {
		var err error
		header = size
		if size, err = strconv.ParseUint(word, 10, 31); err != nil {
			return fmt.Errorf("the size of a message: %w", err)
		}
	}
	if header > size {
		return errors.New("the headers of a message are longer than the message")
	}
	reply := ""
	switch between := words[1 : len(words)-sizes]; {
	case len(between) == 1:
		reply = between[0]
	case len(between) > 1 && between[0] == "+":
		reply = between[1]
	case len(between) > 1 && between[0] != "|":
		return errUnknown
	}
	subject := words[0]
	ok, known := l.p.Says(subject, reply) && l.p.Admits(subject, int(size)), false
	var body []byte
	switch {
	case ok && op == "HMSG":
		if ok = header <= maxLinkHeader && !l.p.Body(subject); ok { // Read takes no headers
			body = make([]byte, header)
			if _, err := io.ReadFull(l.in, body); err != nil {
				return err
			}
			ok = plainHeader(body)
		}
	case ok && l.p.Body(subject):
		if ok = size <= maxLinkBody; ok {
			body = make([]byte, size)
			if _, err := io.ReadFull(l.in, body); err != nil {
				return err
			}
			var err error
			ok, err = l.p.Read(subject, body)
			known = err == nil
		}
	}
	left := int64(size) - int64(len(body))
	if !ok {
		if !known {
			l.refused.Add(1)
		}
		_, err := io.CopyN(io.Discard, l.in, left+2)
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.line(op, words...); err != nil {
		return err
	}
	l.out.Write(body)
	if err := l.body.pass(int(left)); err != nil {
		return err
	}
	return l.body.ending()
}

// plainHeader reports whether a server ignores headers. A server acts on headers such as Nats-Trace-Dest, and publishes on the
// subject in it.
func plainHeader(header []byte) bool {
	text := strings.ToLower(string(header))
	return strings.HasPrefix(text, "nats/1.0") && !strings.Contains(text, "nats-") && !strings.Contains(text, "traceparent")
}

// line writes a line. l.mu is held.
func (l *Link) line(op string, words ...string) error {
	l.out.WriteString(op)
	for _, w := range words {
		l.out.WriteByte(' ')
		l.out.WriteString(w)
	}
	_, err := l.out.WriteString("\r\n") // which repeats the error of those before
	return err
}

// A leafHello has the fields of CONNECT that a peer may set. A peer that called itself a hub, for instance, would have
// another part.
type leafHello struct {
	Version       string   `json:"version,omitempty"`
	JWT           string   `json:"jwt,omitempty"`
	Sig           string   `json:"sig,omitempty"`
	ID            string   `json:"server_id,omitempty"`
	Domain        string   `json:"domain,omitempty"`
	Name          string   `json:"name,omitempty"`
	Cluster       string   `json:"cluster,omitempty"`
	Headers       bool     `json:"headers,omitempty"`
	JetStream     bool     `json:"jetstream,omitempty"`
	DenyPub       []string `json:"deny_pub,omitempty"`
	RemoteAccount string   `json:"remote_account,omitempty"`
	Protocol      int      `json:"protocol,omitempty"`
	ProxySig      string   `json:"proxy_sig,omitempty"` // of the gate
}

// A leafInfo has the fields of INFO that a peer may set. A peer could name other addresses to dial (leafnode_urls). Queue managers
// name none: the URL of a channel has the addresses of all members of a cluster.
type leafInfo struct {
	ID            string     `json:"server_id"`
	Name          string     `json:"server_name"`
	Version       string     `json:"version"`
	Proto         int        `json:"proto"`
	Host          string     `json:"host"`
	Port          int        `json:"port"`
	Headers       bool       `json:"headers"`
	AuthRequired  bool       `json:"auth_required,omitempty"`
	MaxPayload    int32      `json:"max_payload"`
	JetStream     bool       `json:"jetstream,omitempty"`
	CID           uint64     `json:"client_id,omitempty"`
	Nonce         string     `json:"nonce,omitempty"`
	Cluster       string     `json:"cluster,omitempty"`
	Domain        string     `json:"domain,omitempty"`
	ConnectInfo   bool       `json:"connect_info,omitempty"`
	RemoteAccount string     `json:"remote_account,omitempty"`
	Import        *leafGrant `json:"import,omitempty"`
	Export        *leafGrant `json:"export,omitempty"`
	InfoOnConnect bool       `json:"info_on_connect,omitempty"`
}

type leafGrant struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// accepted reads the CONNECT of a peer that has dialled. The name in it must be the name of the peer's certificate.
func (l *Link) accepted(admit func(jwt string) (Caller, error), nonce func(string) string, info []byte) func(string, []byte) ([]byte, error) {
	return func(op string, text []byte) ([]byte, error) {
		if op != "CONNECT" || l.p != nil {
			return nil, errOrder
		}
		var h leafHello
		if err := json.Unmarshal(text, &h); err != nil {
			return nil, fmt.Errorf("CONNECT: %w", err)
		}
		caller, err := admit(h.JWT)
		if err != nil {
			return nil, err
		}
		if h.Name != caller.Token {
			return nil, fmt.Errorf("queue manager %s links under the name %.80q", caller.Token, h.Name)
		}
		var greeted struct{ Nonce string }
		line, _, _ := bytes.Cut(bytes.TrimPrefix(info, []byte("INFO ")), []byte("\n"))
		if err := json.Unmarshal(line, &greeted); err != nil {
			return nil, fmt.Errorf("INFO of the server: %w", err)
		}
		h.ProxySig = nonce(greeted.Nonce)
		l.begin(caller.PeerFilter)
		return json.Marshal(h)
	}
}

// dialled reads each INFO of a peer that has accepted a connection.
func (l *Link) dialled(peer string, p PeerFilter) func(string, []byte) ([]byte, error) {
	return func(op string, text []byte) ([]byte, error) {
		if op != "INFO" {
			return nil, errOrder
		}
		var i leafInfo
		if err := json.Unmarshal(text, &i); err != nil {
			return nil, fmt.Errorf("INFO: %w", err)
		}
		if i.Name != peer {
			return nil, fmt.Errorf("queue manager %s links under the name %.80q", peer, i.Name)
		}
		l.begin(p)
		return json.Marshal(i)
	}
}

func (l *Link) begin(p PeerFilter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.p = p
}
