package mft

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/automation/monitor"
	cliagent "ferry/internal/cli/agent"
	clicall "ferry/internal/cli/call"
	"ferry/internal/cli/follow"
	climonitor "ferry/internal/cli/monitor"
	"ferry/internal/cli/output"
	"ferry/internal/cli/request"
	clischedule "ferry/internal/cli/schedule"
	"ferry/internal/cli/session"
	clitemplate "ferry/internal/cli/template"
	clitransfer "ferry/internal/cli/transfer"
	"ferry/internal/cli/usage"
	"ferry/internal/client"
	"ferry/internal/mft/translate"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// NewSubmit makes the command `ferry submit`.
func NewSubmit() *cobra.Command {
	f := &request.Flags{}
	var wait bool
	c := &cobra.Command{
		Use:   "submit [flags] FILE",
		Short: "Submit a request in the XML of IBM MQ MFT",
		Long: `Submits the request in an XML document of IBM MQ Managed File Transfer: a transfer,
the cancelling of one, a scheduled transfer or its end, a monitor or its end, a
managed call, which has an agent run a program, or a ping. FILE is the document; - is
standard input. Ferry refuses a document with an unsupported element as a whole, and
names the element. The command prints the ID of the transfer or the call, or the name of the
schedule. With --wait the result code is the transfer's, or the call's.

Result codes: 43 the document is malformed, 64 it has an unsupported element; and
those of ferry send.`,
		Example: `  ferry submit --network nats://hub:4222 request.xml
  ferry send ALPHA:pay.csv BETA:inbox/ --to-xml | ferry submit --wait -`,
		Args: usage.OneArg("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Detach = !wait && !f.DryRun
			return submit(cmd, f, args[0])
		},
	}
	fl := c.Flags()
	fl.BoolVar(&wait, "wait", false, "wait for the end of the transfer or the call")
	fl.BoolVar(&f.DryRun, "dry-run", false, "list the files, and send nothing")
	session.AddNetwork(fl, &f.Network)
	fl.StringVar(&f.ConnectTimeout, "connect-timeout", "30s", "how long to try to reach a queue manager before the transfer is handed over, -1 for ever; then 75")
	fl.BoolVar(&f.JSON, "json", false, "JSON Lines on stdout")
	fl.BoolVarP(&f.Quiet, "quiet", "q", false, "no progress, no notices and no summary; errors are shown")
	f.Log.Add(c, "error")
	return c
}

// submit submits the request in a document.
func submit(cmd *cobra.Command, f *request.Flags, name string) error {
	doc, err := readDocument(cmd, name)
	if err != nil {
		return err
	}

	if !f.Quiet {
		for _, what := range doc.Ignored {
			fmt.Fprintf(cmd.ErrOrStderr(), "ferry: no effect here: %s\n", output.Printable(what))
		}
	}
	id := doc.ID
	if id.IsZero() {
		id = transfer.NewID(time.Now())
	}
	switch {
	case doc.Cancel != nil:
		return cancelDocument(cmd, f, doc.Cancel)
	case doc.Ping != nil:
		return submitPing(f, cmd, doc.Ping)
	case doc.Call != nil:
		return submitCall(f, cmd, doc, id)
	case doc.Monitor != nil, doc.Unmonitor != nil, doc.Unschedule != nil, doc.Transfer != nil && doc.Transfer.Schedule != nil:
		return submitKept(f, cmd, doc, id)
	}
	q, err := doc.Request(id)
	if err != nil {
		return err
	}
	if q.Originator == (transfer.Originator{}) {
		q.Originator = client.Me()
	}
	return follow.Hand(f, cmd, q)
}

// submitPing asks the agent of a document whether it is there.
func submitPing(f *request.Flags, cmd *cobra.Command, p *mftxml.Ping) error {
	q := &session.Query{Network: f.Network, JSON: f.JSON, Timeout: cancelTime}
	net, ctx, done, err := q.Open(cmd)
	if err != nil {
		return err
	}
	defer done()
	return cliagent.Ping(ctx, q, cmd, net, p.Agent)
}

// submitCall sends an agent the program of a document as a call.
func submitCall(f *request.Flags, cmd *cobra.Command, doc *mftxml.Document, id transfer.ID) error {
	if f.DryRun {
		return transfer.Errorf(transfer.KindUsage, "--dry-run lists the files of a transfer, and the document has a program run")
	}
	p, err := translate.Call(doc, id)
	if err != nil {
		return err
	}
	q := &session.Query{Network: f.Network, JSON: f.JSON, Timeout: cancelTime, Who: doc.Originator()}
	return clicall.Call(q, cmd, p, f.Detach, f.Quiet)
}

// submitKept sends an agent a document's request for a monitor, schedule or other kept object, or its request to end
// one.
func submitKept(f *request.Flags, cmd *cobra.Command, doc *mftxml.Document, id transfer.ID) error {
	if f.DryRun {
		return transfer.Errorf(transfer.KindUsage, "--dry-run lists the files of a transfer, and the document has none")
	}
	if !f.Detach {
		return transfer.Errorf(transfer.KindUsage, "--wait is for the end of a transfer, and the document asks for none that begins now").WithHint("leave it out")
	}
	q := &session.Query{Network: f.Network, JSON: f.JSON, Timeout: cancelTime, Who: doc.Originator()}
	switch {
	case doc.Monitor != nil:
		c, err := translate.Monitor(doc)
		if err != nil {
			return err
		}
		return climonitor.MakeMonitor(q, cmd, &c.Definition, c.Redefine)
	case doc.Unmonitor != nil:
		k := &session.KeptQuery{Query: *q, Agent: string(doc.Unmonitor.Agent)}
		return climonitor.ChangeMonitor(k, cmd, doc.Unmonitor.Name, monitor.CommandRemove)
	case doc.Unschedule != nil:
		return clischedule.RemoveSchedule((&session.KeptQuery{Query: *q}), cmd, doc.Unschedule.ID)
	}
	if err := clitemplate.NameZone(doc.Transfer.Schedule); err != nil {
		return err
	}
	put, err := translate.Schedule(doc, id)
	if err != nil {
		return err
	}
	at, s, err := clischedule.MakeSchedule(q, cmd, put)
	if err != nil {
		return err
	}
	clischedule.PrintSchedule(f, cmd, at, s)
	return nil
}

// readDocument reads a file, or standard input, as one document.
func readDocument(cmd *cobra.Command, name string) (*mftxml.Document, error) {
	data, err := session.ReadInput(cmd, "document", name, mftxml.MaxDocument)
	if err != nil {
		return nil, err
	}
	return mftxml.Parse(data)
}

// cancelTime is the time that an agent may take to answer the cancel of a document.
const cancelTime = 30 * time.Second

func cancelDocument(cmd *cobra.Command, f *request.Flags, c *mftxml.Cancel) error {
	q := &session.Query{Network: f.Network, JSON: f.JSON, Timeout: cancelTime}
	net, ctx, done, err := q.Open(cmd)
	if err != nil {
		return err
	}
	defer done()
	ctx, end := context.WithTimeout(ctx, cancelTime)
	defer end()
	p, err := net.Transfer(ctx, c.Transfer.String())
	if err != nil {
		return err
	}
	return clitransfer.Control(ctx, q, cmd, net, clitransfer.Command{Verb: "cancel", Kind: wire.ControlCancel}, client.Transfer{Source: p.Source, ID: p.ID})
}
