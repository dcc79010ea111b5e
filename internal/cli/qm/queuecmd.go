package qm

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/client"
	"ferry/internal/client/view"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// NewQueue makes the command `ferry queue`.
func NewQueue() *cobra.Command {
	c := &cobra.Command{Use: "queue", Short: "Make application queues, and look at their messages", Args: usage.NoArgs,
		Long: `An application queue keeps messages at the queue manager, until a program takes them out. A
transfer to AGENT:queue:NAME makes messages of files, and one from there a file of messages. These
commands make queues and show their messages. They take the authority operate.

` + "`ferry queue dead`" + ` is about the queue manager's own messages: commands that no agent takes.`,
		Example: `  ferry queue create ORDERS
  ferry send --split-delimiter 0x0a ALPHA:orders.csv BETA:queue:ORDERS
  ferry send --delete-source ALPHA:queue:ORDERS BETA:/in/orders.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newQueueCreate(), newQueueLs(), newQueueShow(), newQueueRm(), newQueuePut(), newQueueGet(), newDead())
	return c
}

// askQueue connects, asks and closes.
func askQueue(q *session.Query, cmd *cobra.Command, what wire.QueueAsk) (*wire.QueueAnswer, error) {
	net, ctx, done, err := q.Open(cmd)
	if err != nil {
		return nil, err
	}
	defer done()
	return client.AskQueue(ctx, net, what)
}

// queueArg is the queue that the first argument names.
func queueArg(args []string) (transfer.QueueName, error) { return transfer.ParseQueueName(args[0]) }

func newQueueCreate() *cobra.Command {
	q, size, replicas := &session.Query{}, "", 0
	c := &cobra.Command{Use: "create NAME", Short: "Make a queue", Args: usage.OneArg("the name of the queue"), RunE: func(cmd *cobra.Command, args []string) error {
		name, err := queueArg(args)
		if err != nil {
			return err
		}
		what := wire.QueueAsk{Do: wire.QueueCreate, Queue: name, Replicas: replicas}
		if size != "" {
			n, err := transfer.ParseSize(size)
			if err != nil || n < 1<<20 {
				return transfer.Errorf(transfer.KindUsage, "--max-bytes %s is not valid: a size of 1 MiB or more, as 64MiB", size)
			}
			what.MaxBytes = int64(n)
		}
		if replicas < 0 || replicas > 5 {
			return transfer.Errorf(transfer.KindUsage, "--replicas %d is not valid: 1 to 5, and not more than the cluster has members", replicas)
		}
		ans, err := askQueue(q, cmd, what)
		if err != nil {
			return err
		}
		for n := range ans.Queues {
			output.Result(cmd, q.JSON, view.QueueOf(view.TypeCreated, &ans.Queues[n]), "queue %s is made\n", ans.Queues[n].Queue)
		}
		return nil
	}}
	q.Add(c)
	c.Flags().StringVar(&size, "max-bytes", "", "largest size of the queue; more data waits at its source (default 1GiB)")
	c.Flags().IntVar(&replicas, "replicas", 1, "how many members of a cluster keep it, 1 to 5")
	return c
}

func newQueueLs() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "ls", SuggestFor: []string{"list"}, Short: "List the queues", Args: usage.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		ans, err := askQueue(q, cmd, wire.QueueAsk{Do: wire.QueueList})
		if err != nil {
			return err
		}
		return output.ListOf(cmd, q.JSON, "application queue", []string{"QUEUE", "MESSAGES", "BYTES", "LIMIT", "REPLICAS"}, func(row output.Row) error {
			for n := range ans.Queues {
				v := &ans.Queues[n]
				row(view.QueueOf(view.TypeQueue, v), string(v.Queue), fmt.Sprint(v.Messages), transfer.FormatBytes(int64(v.Bytes)), transfer.FormatBytes(v.MaxBytes), fmt.Sprint(v.Replicas))
			}
			return nil
		})
	}}
	q.Add(c)
	output.AddForms(c)
	return c
}

func newQueueShow() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "show NAME", Short: "Show a queue", Args: usage.OneArg("the name of the queue"), RunE: func(cmd *cobra.Command, args []string) error {
		name, err := queueArg(args)
		if err != nil {
			return err
		}
		ans, err := askQueue(q, cmd, wire.QueueAsk{Do: wire.QueueShow, Queue: name})
		if err != nil {
			return err
		}
		for n := range ans.Queues {
			v := &ans.Queues[n]
			if q.JSON {
				output.JSON(cmd, view.QueueOf(view.TypeQueue, v))
				continue
			}
			output.Table(cmd.OutOrStdout(), [][]string{{"queue", string(v.Queue)}, {"messages", fmt.Sprint(v.Messages)}, {"bytes", transfer.FormatBytes(int64(v.Bytes))},
				{"limit", transfer.FormatBytes(v.MaxBytes)}, {"replicas", fmt.Sprint(v.Replicas)}, {"made", madeAt(v.Mark)}})
		}
		return nil
	}}
	q.Add(c)
	return c
}

// madeAt returns the time in the mark of a queue, which is its creation in nanoseconds, to the base of 36.
func madeAt(mark string) string {
	nanos, err := strconv.ParseInt(mark, 36, 64)
	if err != nil {
		return output.Printable(mark)
	}
	return output.Stamp(time.Unix(0, nanos))
}

func newQueueRm() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "rm NAME", Short: "Remove a queue with all messages in it", Args: usage.OneArg("the name of the queue"), RunE: func(cmd *cobra.Command, args []string) error {
		name, err := queueArg(args)
		if err != nil {
			return err
		}
		if _, err := askQueue(q, cmd, wire.QueueAsk{Do: wire.QueueRemove, Queue: name}); err != nil {
			return err
		}
		output.Result(cmd, q.JSON, view.QueueRemoved(name), "queue %s is removed\n", name)
		return nil
	}}
	q.Add(c)
	return c
}

func newQueuePut() *cobra.Command {
	q, what := &session.Query{}, wire.QueueAsk{Do: wire.QueuePut}
	c := &cobra.Command{Use: "put NAME [FILE|-]", Short: "Put one message into a queue, of a file or of standard input", RunE: func(cmd *cobra.Command, args []string) (err error) {
		if len(args) < 1 || len(args) > 2 {
			return transfer.Errorf(transfer.KindUsage, "`ferry queue put` takes the name of a queue, and a file or -")
		}
		if what.Queue, err = queueArg(args); err != nil {
			return err
		}
		if what.Last && what.Group == "" {
			return transfer.Errorf(transfer.KindUsage, "--last says that no more comes of a group, and there is none").WithHint("give --group")
		}
		if what.Group != "" {
			if err := transfer.CheckGroup(what.Group); err != nil {
				return err
			}
		}
		if what.Data, err = session.ReadInput(cmd, "message", append(args, "-")[1], wire.MaxQueuePut); err != nil {
			return err
		}
		if len(what.Data) > wire.MaxQueuePut {
			return transfer.Errorf(transfer.KindTooLarge, "the message is larger than %d bytes", wire.MaxQueuePut).
				WithHint(fmt.Sprintf("`ferry send FILE AGENT:queue:%s` takes larger ones", what.Queue))
		}
		net, ctx, done, err := q.Open(cmd)
		if err != nil {
			return err
		}
		defer done()
		ans, err := client.AskQueue(ctx, net, what)
		if err == nil && q.JSON {
			output.JSON(cmd, view.MessagePut(&what, ans))
		}
		return unanswered(what.Queue, err)
	}}
	q.Add(c)
	c.Flags().StringVar(&what.Group, "group", "", "the group that it is one message of")
	c.Flags().BoolVar(&what.Last, "last", false, "it is the last one of its group")
	return c
}

// unanswered returns the error for a message that was to be put into a queue. Without an answer the error says that the
// message may have been stored.
func unanswered(queue transfer.QueueName, err error) error {
	switch transfer.KindOf(err) {
	case transfer.KindTimeout, transfer.KindNoManager:
		return transfer.Errorf(transfer.KindNoManager, "the message may have been stored in the queue %s: %w", queue, err).
			WithHint(fmt.Sprintf("look at the queue with `ferry queue show %s` before the message is put again", queue))
	}
	return err
}

func newQueueGet() *cobra.Command {
	q, group, browse := &session.Query{}, "", false
	c := &cobra.Command{Use: "get NAME", Short: "Take the oldest message out of a queue, and write it to standard output", Args: usage.OneArg("the name of the queue"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := queueArg(args)
			if err != nil {
				return err
			}
			if group != "" {
				if err := transfer.CheckGroup(group); err != nil {
					return err
				}
			}
			net, ctx, done, err := q.Open(cmd)
			if err != nil {
				return err
			}
			defer done()
			return client.TakeMessage(ctx, net, name, group, browse, func(ans *wire.QueueAnswer) error {
				return writeMessage(cmd.OutOrStdout(), q.JSON, name, ans)
			})
		}}
	q.Add(c)
	c.Flags().StringVar(&group, "group", "", "the oldest message of that group")
	c.Flags().BoolVar(&browse, "browse", false, "leave it in the queue")
	return c
}

// writeMessage writes the data of a message, or its line of JSON. A message that cannot be written must not be taken.
func writeMessage(w io.Writer, asJSON bool, queue transfer.QueueName, ans *wire.QueueAnswer) error {
	data := ans.Data
	if asJSON {
		data = append(view.Marshal(view.MessageOf(queue, ans)), '\n')
	}
	if _, err := w.Write(data); err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the message cannot be written, and stays in the queue: %w", err)
	}
	return nil
}
