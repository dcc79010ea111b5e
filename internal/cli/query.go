package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/client"
	"ferry/internal/qmgr"
	"ferry/internal/security/enrol"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// A query asks the network something and waits a few seconds for the answer.
type query struct {
	network string
	json    bool
	timeout time.Duration
	who     transfer.Originator // as a document says; zero: this user
}

func (q *query) add(c *cobra.Command) {
	addNetwork(c.Flags(), &q.network)
	c.Flags().BoolVar(&q.json, "json", false, "one JSON object a line")
	c.Flags().DurationVar(&q.timeout, "timeout", 5*time.Second, "how long to wait for an answer")
}

// open connects; the caller closes.
func (q *query) open(cmd *cobra.Command) (*client.Client, context.Context, func(), error) {
	if q.network == "" {
		return nil, nil, nil, transfer.Errorf(transfer.KindUsage, "no network is given").WithHint("give --network URL or set FERRY_NETWORK")
	}

	ctx, stop := untilSignal(cmd.Context())
	log, err := errorLogger(cmd)
	if err != nil {
		stop()
		return nil, nil, nil, err
	}

	conn, err := connectUser(ctx, cmd, q.network, "ferry query", q.timeout, log)
	if err != nil {
		stop()
		return nil, nil, nil, err
	}
	net := newClient(conn, q.network, q.timeout)
	if q.who != (transfer.Originator{}) {
		net.Who = q.who
	}
	return net, ctx, func() { conn.Close(); stop() }, nil
}

// newClient is a client for this user.
func newClient(conn *qmgr.Conn, network string, timeout time.Duration) *client.Client {
	return &client.Client{Conn: conn, Clock: clock.System, Who: client.Me(), Network: network, Timeout: timeout}
}

// openAgent connects to ask about the agent of a name; the caller closes.
func (q *query) openAgent(cmd *cobra.Command, arg string) (transfer.AgentName, *client.Client, context.Context, func(), error) {
	name, err := transfer.ParseAgentName(arg)
	if err != nil {
		return "", nil, nil, nil, err
	}
	c, ctx, done, err := q.open(cmd)
	return name, c, ctx, done, err
}

// askAuthority connects as this user to ask the network's authority; the caller closes.
func (q *query) askAuthority(cmd *cobra.Command) (ctx context.Context, a enrol.Asker, network string, done func(), err error) {
	if err := needURL(q.network); err != nil {
		return nil, a, "", nil, err
	}
	ctx, stop := untilSignal(cmd.Context())
	log, err := errorLogger(cmd)
	if err != nil {
		stop()
		return nil, a, "", nil, err
	}
	conn, err := connectUser(ctx, cmd, q.network, "ferry authority", q.timeout, log)
	if err != nil {
		stop()
		return nil, a, "", nil, err
	}
	if conn.Identity() == nil {
		conn.Close()
		stop()
		return nil, a, "", nil, transfer.Errorf(transfer.KindUsage, "the queue manager at %s has no identities: it was started with --insecure, or is not Ferry's", q.network)
	}
	return ctx, enrol.Asker{Conn: conn}, conn.Identity().Name().Network, func() { conn.Close(); stop() }, nil
}

func needURL(url string) error {
	if url == "" {
		return transfer.Errorf(transfer.KindUsage, "no network is given").WithHint("give --network URL or set FERRY_NETWORK")
	}
	return nil
}
