package roles_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"ferry/internal/qmgr/roles"
)

var update = flag.Bool("update", false, "write testdata/rights.golden")

// A network is a queue manager with the keys of a network.
type network struct {
	keys *roles.Keys
	ns   *server.Server
}

func start(t *testing.T) *network {
	t.Helper()
	keys, err := roles.NewKeys()
	must(t, err)
	c, err := keys.Claims("test", 1, nil)
	must(t, err)
	op, err := jwt.DecodeOperatorClaims(c.Operator)
	must(t, err)
	resolver := &server.MemAccResolver{}
	for _, text := range []string{c.Account, c.Data, c.System} {
		a, err := jwt.DecodeAccountClaims(text)
		must(t, err)
		must(t, resolver.Store(a.Subject, text))
	}
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
		TrustedOperators: []*jwt.OperatorClaims{op}, SystemAccount: op.SystemAccount, AccountResolver: resolver})
	must(t, err)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("the queue manager is not ready")
	}
	return &network{keys, ns}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A line is a connection for the test, which writes the protocol itself.
type line struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
}

// join connects in a role. The second result is the queue manager's answer.
func (n *network) join(t testing.TB, role roles.Role, token string) (*line, string) {
	t.Helper()
	return n.joinWith(t, n.keys.Sign, role, token)
}

func (n *network) joinWith(t testing.TB, sign func(roles.Role, string, string, time.Time) (string, error), role roles.Role, token string) (*line, string) {
	t.Helper()
	kp, err := nkeys.CreateUser()
	must(t, err)
	public, err := kp.PublicKey()
	must(t, err)
	signed, err := sign(role, token, public, time.Now().Add(time.Hour))
	must(t, err)
	return n.connect(t, signed, kp)
}

func (n *network) connect(t testing.TB, signed string, kp nkeys.KeyPair) (*line, string) {
	t.Helper()
	conn, err := net.Dial("tcp", n.ns.Addr().String())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	l := &line{t, conn, bufio.NewReader(conn)}
	conn.SetDeadline(time.Now().Add(time.Minute))
	text, ok := strings.CutPrefix(l.read(), "INFO ")
	if !ok {
		t.Fatalf("the queue manager begins with %q", text)
	}
	var info struct{ Nonce string }
	must(t, json.Unmarshal([]byte(text), &info))
	sig, err := kp.Sign([]byte(info.Nonce))
	must(t, err)
	hello, err := json.Marshal(map[string]any{"verbose": false, "pedantic": true, "jwt": signed, "sig": base64.RawURLEncoding.EncodeToString(sig), "headers": true})
	must(t, err)
	return l, l.say("CONNECT " + string(hello))
}

func (l *line) read() string {
	l.t.Helper()
	s, err := l.in.ReadString('\n')
	if err != nil {
		return "closed"
	}
	return strings.TrimSpace(s)
}

// say sends something and gives the error that it is answered with; empty: none.
func (l *line) say(text string) (refusal string) {
	l.t.Helper()
	_, err := fmt.Fprintf(l.conn, "%s\r\nPING\r\n", text)
	must(l.t, err)
	for {
		switch s := l.read(); {
		case s == "PONG" || s == "closed" && refusal != "":
			return refusal
		case s == "closed":
			return s
		case strings.HasPrefix(s, "-ERR"):
			refusal = s
		}
	}
}

// The tokens of the roles that try.
var who = map[roles.Role]string{roles.Agent: "ALPHA", roles.Pipe: "PIPE-0123456789000000000001", roles.User: "alice", roles.Member: "mary", roles.Operator: "olga", roles.Admin: "adam", roles.Auditor: "anna",
	roles.Coordination: "coordination", roles.Authority: "authority", roles.Manager: "qmgr", roles.Channel: "qmgr"}

// subjects returns all subjects to try: every subject of the table with every token, with and without wildcards, the
// whole of JetStream's administration for each stream and durable, and subjects that have nothing to do with Ferry.
func subjects() []string {
	var all []string
	names := append(slices.Sorted(func(yield func(string) bool) {
		for _, token := range who {
			if !yield(token) {
				return
			}
		}
	}), "BETA", "A%2EB", "bob")
	for _, g := range append(slices.Collect(maps.Values(roles.Grants())), slices.Collect(maps.Values(roles.DataGrants()))...) {
		for _, s := range slices.Concat(g.Publish, g.Subscribe) {
			all = append(all, s)
			for _, token := range names {
				one := strings.ReplaceAll(s, roles.Self, token)
				all = append(all, one)
				for _, star := range names {
					all = append(all, strings.ReplaceAll(strings.ReplaceAll(one, "*", star), ">", "x.y"))
				}
			}
		}
	}

	for _, stream := range []string{roles.StreamCommand, roles.StreamControl, roles.StreamEvent, roles.StreamStore, roles.StreamOwner, roles.StreamHold, roles.StreamDead} {
		for _, op := range []string{"STREAM.CREATE", "STREAM.UPDATE", "STREAM.DELETE", "STREAM.PURGE", "STREAM.INFO", "STREAM.SNAPSHOT", "STREAM.RESTORE",
			"STREAM.MSG.GET", "STREAM.MSG.DELETE", "STREAM.PEER.REMOVE", "STREAM.LEADER.STEPDOWN", "CONSUMER.NAMES", "CONSUMER.LIST", "CONSUMER.CREATE", "DIRECT.GET"} {
			all = append(all, "$JS.API."+op+"."+stream)
		}
		for _, durable := range []string{"command-ALPHA", "control-ALPHA", "store-ALPHA", "command-BETA", "coordination"} {
			at := stream + "." + durable
			for _, op := range []string{"CREATE", "DURABLE.CREATE", "DELETE", "INFO", "MSG.NEXT", "PAUSE", "RESET", "UNPIN", "LEADER.STEPDOWN"} {
				all = append(all, "$JS.API.CONSUMER."+op+"."+at)
			}
			all = append(all, "$JS.ACK."+at+".1.2.3.4.5", "$JS.ACK._.hash."+at+".1.2.3.4.5", "$JS.FC."+at+".x",
				"$JS.ACK."+at+".FERRY_COMMAND.command-ALPHA.5.6.7", "$JS.API.CONSUMER.CREATE."+at+".ferry.command.BETA.>")
		}
		all = append(all, "$JS.API.DIRECT.GET."+stream+".ferry.owner.BETA", "$JS.API.DIRECT.GET."+stream+".ferry.command.BETA.x")
	}

	all = append(all, ">", "*", "ferry.>", "ferry.*", "ferry.reply.>", "ferry.reply.*.*", "ferry.inbox.>", "ferry.inbox.*.>", "_INBOX.>", "_INBOX.x", "$SYS.>", "$SYS.REQ.SERVER.PING",
		"$SYS.REQ.USER.INFO", "$SYS.REQ.ACCOUNT.PING.CONNZ", "$JS.API.INFO", "$JS.API.>", "$JS.>", "$JS.EVENT.ADVISORY.>", "$KV.FERRY_OWNER.ALPHA", "$O.x.y", "$SRV.PING", "other.subject",
		"ferry.store.BETA.ALPHA.x", "ferry.store.BETA.ALPHA.x.y.z", "ferry.ask.BETA", "ferry.reply.BETA", "ferry.data.BETA.ALPHA", "ferry.control.ALPHA.ALPHA", "ferry.command.BETA.ALPHA", "ferry.command.ALPHA.alice.x",
		"ferry.dead.>", "ferry.dead.request.ALPHA.alice.0123456789abcdef.0", "ferry.dead.request.BETA.bob.0123456789abcdef.0")
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(s string) bool { return strings.Contains(s, "{{") })
}

// TestRightsOverASocket tries every subject as every role: the subjects of the table pass, and no others do.
func TestRightsOverASocket(t *testing.T) {
	n := start(t)
	tried, passed := 0, map[string][]string{}
	try := func(as string, l *line, grant roles.Grant) {
		for k, s := range subjects() {
			if strings.ContainsAny(s, "*>") == false { // publishing to a wildcard is not tried
				tried++
				refused := l.say(fmt.Sprintf("PUB %s 0\r\n", s))
				if may := roles.Covers(grant.Publish, s); may != (refused == "") || refused != "" && !strings.Contains(refused, "Permissions Violation") {
					t.Errorf("%s publishes to %s: %q, and may: %v", as, s, refused, may)
				}
				if refused == "" {
					passed[as] = append(passed[as], "pub "+s)
				}
			}
			tried++
			refused := l.say(fmt.Sprintf("SUB %s %d", s, k))
			if may := roles.Covers(grant.Subscribe, s); may != (refused == "") {
				t.Errorf("%s subscribes %s: %q, and may: %v", as, s, refused, may)
			}
			if refused == "" {
				l.say(fmt.Sprintf("UNSUB %d", k))
				passed[as] = append(passed[as], "sub "+s)
			}
		}
	}
	for role, token := range who {
		if role == roles.Channel {
			continue // below
		}
		l, refused := n.join(t, role, token)
		if refused != "" {
			t.Fatalf("%s is not let in: %s", role, refused)
		}
		try(string(role), l, roles.Grants()[role].For(token))
	}
	for role, grant := range roles.DataGrants() {
		l, refused := n.joinWith(t, n.keys.SignData, role, who[role])
		if role == roles.Channel {
			if !strings.Contains(refused, "Authorization Violation") {
				t.Errorf("the JWT of a queue manager's link is admitted as a client: %q", refused)
			}
			continue
		}
		if refused != "" {
			t.Fatalf("the data of %s is not let in: %s", role, refused)
		}
		try(string(role)+", data", l, grant.For(who[role]))
	}
	if _, refused := n.join(t, roles.Channel, "qmgr"); !strings.Contains(refused, "Authorization Violation") {
		t.Errorf("the JWT of a queue manager's link is admitted as a client: %q", refused)
	}
	t.Logf("%d tried", tried)
	golden(t, passed)
}

// golden compares the subjects that passed with the reviewed list.
func golden(t *testing.T, passed map[string][]string) {
	t.Helper()
	var b strings.Builder
	for _, as := range slices.Sorted(maps.Keys(passed)) {
		if as == string(roles.Manager) {
			continue // everything
		}
		slices.Sort(passed[as])
		role, _, _ := strings.Cut(as, ",")
		fmt.Fprintf(&b, "%s, as %s\n\t%s\n", as, who[roles.Role(role)], strings.Join(passed[as], "\n\t"))
	}
	const file = "testdata/rights.golden"
	if *update {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if b.String() != string(want) {
		t.Errorf("the subjects that pass differ from %s; review them, then run this test with -update", file)
	}
}
