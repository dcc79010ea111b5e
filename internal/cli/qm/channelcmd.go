package qm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/node/queuemanager"
	"ferry/internal/qmgr/channel"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// NewChannel makes the command `ferry channel`.
func NewChannel() *cobra.Command {
	c := &cobra.Command{Use: "channel", Short: "See, stop and start the channels of a queue manager to others", Args: usage.NoArgs,
		Long: `A channel links a queue manager to another one. ` + "`ferry up --channel NAME=URL`" + ` defines
it, at the side that dials; --network says which queue manager is asked.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newChannelLs(), newChannelShow(),
		newChannelChange("stop", queuemanager.UpStop, "End a channel until it is started again", "channel %s is stopped"),
		newChannelChange("start", queuemanager.UpStart, "Start a channel that was stopped", "channel %s is started"),
		newChannelChange("rm", queuemanager.UpRemove, "Forget a channel; data kept for the other side stays", "channel %s is removed"))
	return c
}

// askUp sends a question to the `ferry up` beside the queue manager; nil: a question for the status.
func askUp(q *session.Query, cmd *cobra.Command, what *queuemanager.UpQuestion) (ans queuemanager.UpAnswer, err error) {
	c, ctx, done, err := q.Open(cmd)
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
	data, err := c.Conn.Request(ctx, wire.AskSubject(wire.Up, c.Conn.Self()), body, q.Timeout)
	if transfer.KindOf(err) == transfer.KindUnreachable {
		return ans, transfer.Errorf(transfer.KindUnreachable, "the queue manager at %s is not run by `ferry up`: it has no channels of Ferry's", q.Network)
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
	q := &session.Query{}
	c := &cobra.Command{Use: "ls", SuggestFor: []string{"list"}, Short: "List the channels of a queue manager, also those that others have to it", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ans, err := askUp(q, cmd, nil)
			if err != nil {
				return err
			}
			return output.ListOf(cmd, q.JSON, "channel of this queue manager", []string{"CHANNEL", "STATE", "DIRECTION", "ROUND TRIP", "IN", "OUT", "WAITING", "REASON"}, func(row output.Row) error {
				for _, s := range ans.Channels {
					row(s, s.Name, s.State, s.Direction, tripText(s.RTT), transfer.FormatBytes(s.In), transfer.FormatBytes(s.Out), fmt.Sprint(s.Waiting), output.Printable(s.Reason))
				}
				return nil
			})
		}}
	q.Add(c)
	output.AddForms(c)
	return c
}

func tripText(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(10 * time.Microsecond).String()
}

func newChannelShow() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "show NAME", Short: "Show a channel", Args: usage.OneArg("the name of a channel"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ans, err := askUp(q, cmd, nil)
			if err != nil {
				return err
			}
			for _, s := range ans.Channels {
				if !strings.EqualFold(s.Name, args[0]) {
					continue
				}
				if q.JSON {
					output.JSON(cmd, s)
					return nil
				}
				rows := [][]string{
					{"channel", s.Name}, {"state", s.State}, {"reason", output.Printable(output.Or(s.Reason, "-"))}, {"direction", s.Direction}, {"queue manager", output.Or(s.Peer, "-")}, {"url", output.Or(s.URL, "-")}, {"address", output.Or(s.Address, "-")},
					{"round trip", tripText(s.RTT)}, {"bytes in", fmt.Sprint(s.In)}, {"bytes out", fmt.Sprint(s.Out)}, {"waiting", output.Plural(int64(s.Waiting), "message")}}
				if s.Refused > 0 || s.Unheard > 0 {
					rows = append(rows, []string{"refused", output.Plural(int64(s.Refused), "message") + ", " + output.Plural(s.Unheard, "subject")})
				}
				if s.Made > 0 {
					rows = append(rows, []string{"connections made", fmt.Sprint(s.Made)})
				}
				output.Table(cmd.OutOrStdout(), rows)
				return nil
			}
			return transfer.Errorf(transfer.KindNotFound, "the queue manager has no channel %s", args[0]).WithHint("`ferry channel ls` lists them")
		}}
	q.Add(c)
	return c
}

func newChannelChange(verb string, op queuemanager.UpOp, short, said string) *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: verb + " NAME", Short: short, Args: usage.OneArg("the name of a channel"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ans, err := askUp(q, cmd, &queuemanager.UpQuestion{Op: op, Name: args[0]})
			if err != nil {
				return err
			}
			if !q.JSON {
				fmt.Fprintf(cmd.OutOrStdout(), said+"\n", args[0])
				return nil
			}
			for _, s := range ans.Channels {
				if strings.EqualFold(s.Name, args[0]) {
					output.JSON(cmd, s)
				}
			}
			return nil
		}}
	q.Add(c)
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
