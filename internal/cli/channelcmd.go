package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/channel"
	"ferry/internal/security/access"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An upQuestion is a question to `ferry up`, sent to its token. A question without a body asks for agents and channels
// alone.
type upQuestion struct {
	V    int    `json:"v"`
	Op   upOp   `json:"op"`
	Name string `json:"name,omitempty"` // of a channel
}

// An upOp changes a channel.
type upOp string

const (
	upStop   upOp = "stop"
	upStart  upOp = "start"
	upRemove upOp = "rm"
)

// upAnswer is the answer to an upQuestion.
type upAnswer struct {
	V        int                    `json:"v"`
	Agents   map[string]bool        `json:"agents"`             // name, ready
	Starting bool                   `json:"starting,omitempty"` // coordination has not been started yet
	Degraded string                 `json:"degraded,omitempty"` // why coordination does not run
	Channels []channel.ChannelState `json:"channels,omitempty"`
	Error    *transfer.Error        `json:"error,omitempty"`
}

// maxUpQuestion bounds a question, in bytes.
const maxUpQuestion = 4 << 10

// An upDesk answers for the process of `ferry up`.
type upDesk struct {
	conn  *qmgr.Conn
	links *channel.Channels
	rules func() (*trust.Document, error) // nil: no rules, and all changes are allowed
	ready map[string]*atomic.Bool         // agents
	begun atomic.Bool                     // coordination has been started, or is not to be
	away  atomic.Pointer[error]           // why coordination does not run, though it is to
}

// openDesk answers for as long as the connection is there.
func openDesk(conn *qmgr.Conn, links *channel.Channels, rules func() (*trust.Document, error), names []string) (*upDesk, error) {
	d := &upDesk{conn: conn, links: links, rules: rules, ready: map[string]*atomic.Bool{}}
	for _, n := range names {
		d.ready[n] = new(atomic.Bool)
	}
	_, err := conn.Subscribe(wire.AllAsks(wire.Up), d.asked)
	return d, err
}

func (d *upDesk) asked(m qmgr.Message) {
	if m.Reply == "" {
		return
	}
	asker := wire.LastToken(m.Subject)
	ans := upAnswer{V: 1, Agents: map[string]bool{}, Starting: !d.begun.Load()}
	if len(m.Data) > 0 {
		ans.Error = transfer.AsError(d.change(asker, m.Data))
	}
	for n, r := range d.ready {
		ans.Agents[n] = r.Load()
	}
	ans.Channels = d.links.List()
	if why := d.away.Load(); why != nil {
		ans.Degraded = coordinationAway
		if d.rules == nil || d.mayChange(asker) == nil { // names of files are for administrators
			ans.Degraded = "coordination is degraded: " + (*why).Error()
		}
	}
	if data, err := json.Marshal(ans); err == nil {
		d.conn.Answer(asker, m.Reply, data) // a failed answer is ignored
	}
}

// tell sets the reason why coordination does not run; nil: it runs.
func (d *upDesk) tell(why error) {
	if why == nil {
		d.away.Store(nil)
		return
	}
	d.away.Store(&why)
}

// change does the change that a question asks for, if the rules allow the asker to make it.
func (d *upDesk) change(asker string, question []byte) error {
	var q upQuestion
	if err := json.Unmarshal(question, &q); err != nil || q.V != 1 || len(question) > maxUpQuestion {
		return transfer.Errorf(transfer.KindVersion, "a question of %s to `ferry up` cannot be read", asker)
	}
	if err := d.mayChange(asker); err != nil {
		return err
	}
	switch q.Op {
	case upStop:
		return d.links.Stop(q.Name)
	case upStart:
		return d.links.Start(q.Name)
	case upRemove:
		return d.links.Remove(q.Name)
	}
	return transfer.Errorf(transfer.KindVersion, "`ferry up` knows no %.40q", q.Op)
}

func (d *upDesk) mayChange(asker string) error {
	doc, err := d.rules()
	if err != nil || doc == nil {
		return err
	}
	j := access.NewJudge(doc.Network, nil, false)
	if err := j.Take(doc); err != nil {
		return err
	}
	_, err = j.Ask(access.Question{Principal: asker, Right: transfer.AuthAdmin})
	return err
}

func newChannel() *cobra.Command {
	c := &cobra.Command{Use: "channel", Short: "See, stop and start the channels of a queue manager to others", Args: noArgs,
		Long: `A channel links a queue manager to another one. ` + "`ferry up --channel NAME=URL`" + ` defines
it, at the side that dials; --network says which queue manager is asked.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newChannelLs(), newChannelShow(),
		newChannelChange("stop", upStop, "End a channel until it is started again", "channel %s is stopped"),
		newChannelChange("start", upStart, "Start a channel that was stopped", "channel %s is started"),
		newChannelChange("rm", upRemove, "Forget a channel; data kept for the other side stays", "channel %s is removed"))
	return c
}

// askUp sends a question to the `ferry up` beside the queue manager; nil: a question for the status.
func (q *query) askUp(cmd *cobra.Command, what *upQuestion) (ans upAnswer, err error) {
	c, ctx, done, err := q.open(cmd)
	if err != nil {
		return ans, err
	}
	defer done()
	var body []byte
	if what != nil {
		what.V = 1
		if body, err = json.Marshal(what); err != nil {
			return ans, err
		}
	}
	data, err := c.Conn.Request(ctx, wire.AskSubject(wire.Up, c.Conn.Self()), body, q.timeout)
	if transfer.KindOf(err) == transfer.KindUnreachable {
		return ans, transfer.Errorf(transfer.KindUnreachable, "the queue manager at %s is not run by `ferry up`: it has no channels of Ferry's", q.network)
	}
	if err != nil {
		return ans, err
	}
	if err := json.Unmarshal(data, &ans); err != nil || ans.V != 1 {
		return ans, transfer.Errorf(transfer.KindVersion, "the answer of `ferry up` cannot be read").WithHint("are both of the same version?")
	}
	if ans.Error != nil {
		return ans, ans.Error
	}
	return ans, nil
}

func newChannelLs() *cobra.Command {
	q := &query{}
	c := &cobra.Command{Use: "ls", SuggestFor: []string{"list"}, Short: "List the channels of a queue manager, also those that others have to it", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ans, err := q.askUp(cmd, nil)
			if err != nil {
				return err
			}
			rows := [][]string{{"CHANNEL", "STATE", "DIRECTION", "ROUND TRIP", "IN", "OUT", "WAITING", "REASON"}}
			for _, s := range ans.Channels {
				if q.json {
					printJSON(cmd, s)
					continue
				}
				rows = append(rows, []string{s.Name, s.State, s.Direction, tripText(s.RTT), transfer.FormatBytes(s.In), transfer.FormatBytes(s.Out), fmt.Sprint(s.Waiting), printable(s.Reason)})
			}
			if !q.json {
				table(cmd.OutOrStdout(), rows)
			}
			return nil
		}}
	q.add(c)
	return c
}

func tripText(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(10 * time.Microsecond).String()
}

func newChannelShow() *cobra.Command {
	q := &query{}
	c := &cobra.Command{Use: "show NAME", Short: "Show a channel", Args: oneArg("the name of a channel"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ans, err := q.askUp(cmd, nil)
			if err != nil {
				return err
			}
			for _, s := range ans.Channels {
				if !strings.EqualFold(s.Name, args[0]) {
					continue
				}
				if q.json {
					printJSON(cmd, s)
					return nil
				}
				rows := [][]string{
					{"channel", s.Name}, {"state", s.State}, {"reason", printable(or(s.Reason, "-"))}, {"direction", s.Direction}, {"queue manager", or(s.Peer, "-")}, {"url", or(s.URL, "-")}, {"address", or(s.Address, "-")},
					{"round trip", tripText(s.RTT)}, {"bytes in", fmt.Sprint(s.In)}, {"bytes out", fmt.Sprint(s.Out)}, {"waiting", plural(int64(s.Waiting), "message")}}
				if s.Refused > 0 || s.Unheard > 0 {
					rows = append(rows, []string{"refused", plural(int64(s.Refused), "message") + ", " + plural(s.Unheard, "subject")})
				}
				if s.Made > 0 {
					rows = append(rows, []string{"connections made", fmt.Sprint(s.Made)})
				}
				table(cmd.OutOrStdout(), rows)
				return nil
			}
			return transfer.Errorf(transfer.KindNotFound, "the queue manager has no channel %s", args[0]).WithHint("`ferry channel ls` lists them")
		}}
	q.add(c)
	return c
}

func newChannelChange(verb string, op upOp, short, said string) *cobra.Command {
	q := &query{}
	c := &cobra.Command{Use: verb + " NAME", Short: short, Args: oneArg("the name of a channel"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ans, err := q.askUp(cmd, &upQuestion{Op: op, Name: args[0]})
			if err != nil {
				return err
			}
			if !q.json {
				fmt.Fprintf(cmd.OutOrStdout(), said+"\n", args[0])
				return nil
			}
			for _, s := range ans.Channels {
				if strings.EqualFold(s.Name, args[0]) {
					printJSON(cmd, s)
				}
			}
			return nil
		}}
	q.add(c)
	return c
}

// channelsDown are the channels that this queue manager dials and that are neither up nor stopped.
func channelsDown(all []channel.ChannelState) (down []string) {
	for _, s := range all {
		if s.State == channel.ChannelConnecting {
			down = append(down, "channel "+s.Name+" is not up: "+cmp.Or(s.Reason, "it was not tried yet"))
		}
	}
	return down
}
