package session

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/client"
	"ferry/internal/qmgr"
	"ferry/internal/security/enrol"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// A Query asks the network something and waits a few seconds for the answer.
type Query struct {
	Network string
	JSON    bool
	Timeout time.Duration
	Who     transfer.Originator // as a document says; zero: this user
}

// Add adds the flags.
func (q *Query) Add(c *cobra.Command) {
	AddNetwork(c.Flags(), &q.Network)
	c.Flags().BoolVar(&q.JSON, "json", false, "one JSON object a line")
	c.Flags().DurationVar(&q.Timeout, "timeout", 5*time.Second, "how long to wait for an answer")
}

// Open connects; the caller closes.
func (q *Query) Open(cmd *cobra.Command) (*client.Client, context.Context, func(), error) {
	if q.Network == "" {
		return nil, nil, nil, transfer.Errorf(transfer.KindUsage, "no network is given").WithHint("give --network URL or set FERRY_NETWORK")
	}

	ctx, stop := UntilSignal(cmd.Context())
	log, err := ErrorLogger(cmd)
	if err != nil {
		stop()
		return nil, nil, nil, err
	}

	conn, err := ConnectUser(ctx, cmd, q.Network, "ferry query", q.Timeout, log)
	if err != nil {
		stop()
		return nil, nil, nil, err
	}
	net := NewClient(conn, q.Network, q.Timeout)
	if q.Who != (transfer.Originator{}) {
		net.Who = q.Who
	}
	return net, ctx, func() { conn.Close(); stop() }, nil
}

// List connects, and prints the objects that each asks for, as output.List does.
func (q *Query) List(cmd *cobra.Command, headings []string, each func(ctx context.Context, net *client.Client, row output.Row) error) error {
	net, ctx, done, err := q.Open(cmd)
	if err != nil {
		return err
	}
	defer done()
	return output.List(cmd, q.JSON, headings, func(row output.Row) error { return each(ctx, net, row) })
}

// NewClient is a client for this user.
func NewClient(conn *qmgr.Conn, network string, timeout time.Duration) *client.Client {
	return &client.Client{Conn: conn, Clock: clock.System, Who: client.Me(), Network: network, Timeout: timeout}
}

// OpenAgent connects to ask about the agent of a name; the caller closes.
func (q *Query) OpenAgent(cmd *cobra.Command, arg string) (transfer.AgentName, *client.Client, context.Context, func(), error) {
	name, err := transfer.ParseAgentName(arg)
	if err != nil {
		return "", nil, nil, nil, err
	}
	c, ctx, done, err := q.Open(cmd)
	return name, c, ctx, done, err
}

// AskAuthority connects as this user to ask the network's authority; the caller closes.
func (q *Query) AskAuthority(cmd *cobra.Command) (ctx context.Context, a enrol.Client, network string, done func(), err error) {
	if err := NeedURL(q.Network); err != nil {
		return nil, a, "", nil, err
	}
	ctx, stop := UntilSignal(cmd.Context())
	log, err := ErrorLogger(cmd)
	if err != nil {
		stop()
		return nil, a, "", nil, err
	}
	conn, err := ConnectUser(ctx, cmd, q.Network, "ferry authority", q.Timeout, log)
	if err != nil {
		stop()
		return nil, a, "", nil, err
	}
	if conn.Identity() == nil {
		conn.Close()
		stop()
		return nil, a, "", nil, transfer.Errorf(transfer.KindUsage, "the queue manager at %s has no identities: it was started with --insecure, or is not Ferry's", q.Network)
	}
	return ctx, enrol.Client{Conn: conn, Timeout: q.Timeout}, conn.Identity().Name().Network, func() { conn.Close(); stop() }, nil
}

// NeedURL refuses a command without a network.
func NeedURL(url string) error {
	if url == "" {
		return transfer.Errorf(transfer.KindUsage, "no network is given").WithHint("give --network URL or set FERRY_NETWORK")
	}
	return nil
}
