package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/automation/monitor"
	"ferry/internal/automation/schedule"
	"ferry/internal/client"
	"ferry/internal/mft/translate"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

func newSubmit() *cobra.Command {
	f := &sendFlags{}
	var wait bool
	c := &cobra.Command{
		Use:   "submit [flags] FILE",
		Short: "Submit a request in the XML of IBM MQ MFT",
		Long: `Submits the request in an XML document of IBM MQ Managed File Transfer: a transfer,
the cancelling of one, a scheduled transfer or its end, a monitor or its end, or a
managed call, which has an agent run a program. FILE is the document; - is standard
input. Ferry refuses a document with an unsupported element as a whole, and names the
element. The command prints the ID of the transfer or the call, or the name of the
schedule. With --wait the result code is the transfer's, or the call's.

Result codes: 43 the document is malformed, 64 it has an unsupported element; and
those of ferry send.`,
		Example: `  ferry submit --network nats://hub:4222 request.xml
  ferry send ALPHA:pay.csv BETA:inbox/ --to-xml | ferry submit --wait -`,
		Args: oneArg("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.detach = !wait && !f.dryRun
			return submit(cmd, f, args[0])
		},
	}
	fl := c.Flags()
	fl.BoolVar(&wait, "wait", false, "wait for the end of the transfer or the call")
	fl.BoolVar(&f.dryRun, "dry-run", false, "list the files, and send nothing")
	addNetwork(fl, &f.network)
	fl.StringVar(&f.connectTimeout, "connect-timeout", "30s", "how long to try to reach a queue manager before the transfer is handed over, -1 for ever; then 75")
	fl.BoolVar(&f.json, "json", false, "JSON Lines on stdout")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress, no notices and no summary; errors are shown")
	f.log.add(c, "error")
	return c
}

// submit submits the request in a document.
func submit(cmd *cobra.Command, f *sendFlags, name string) error {
	doc, err := readDocument(cmd, name)
	if err != nil {
		return err
	}

	if !f.quiet {
		for _, what := range doc.Ignored {
			fmt.Fprintf(cmd.ErrOrStderr(), "ferry: no effect here: %s\n", printable(what))
		}
	}
	id := doc.ID
	if id.IsZero() {
		id = transfer.NewID(time.Now())
	}
	switch {
	case doc.Cancel != nil:
		return cancelDocument(cmd, f, doc.Cancel)
	case doc.Call != nil:
		return f.submitCall(cmd, doc, id)
	case doc.Monitor != nil, doc.Unmonitor != nil, doc.Unschedule != nil, doc.Transfer != nil && doc.Transfer.Schedule != nil:
		return f.submitKept(cmd, doc, id)
	}
	q, err := doc.Request(id)
	if err != nil {
		return err
	}
	if q.Originator == (transfer.Originator{}) {
		q.Originator = client.Me()
	}
	return f.hand(cmd, q)
}

// submitCall sends an agent the program of a document as a call.
func (f *sendFlags) submitCall(cmd *cobra.Command, doc *mftxml.Document, id transfer.ID) error {
	if f.dryRun {
		return transfer.Errorf(transfer.KindUsage, "--dry-run lists the files of a transfer, and the document has a program run")
	}
	p, err := translate.Call(doc, id)
	if err != nil {
		return err
	}
	q := &query{network: f.network, json: f.json, timeout: cancelTime, who: doc.Originator()}
	return q.call(cmd, p, f.detach, f.quiet)
}

// submitKept sends an agent a document's request for a monitor, schedule or other kept object, or its request to end
// one.
func (f *sendFlags) submitKept(cmd *cobra.Command, doc *mftxml.Document, id transfer.ID) error {
	if f.dryRun {
		return transfer.Errorf(transfer.KindUsage, "--dry-run lists the files of a transfer, and the document has none")
	}
	if !f.detach {
		return transfer.Errorf(transfer.KindUsage, "--wait is for the end of a transfer, and the document asks for none that begins now").WithHint("leave it out")
	}
	q := &query{network: f.network, json: f.json, timeout: cancelTime, who: doc.Originator()}
	switch {
	case doc.Monitor != nil:
		c, err := translate.Monitor(doc)
		if err != nil {
			return err
		}
		return q.makeMonitor(cmd, &c.Definition, c.Redefine)
	case doc.Unmonitor != nil:
		k := &keptQuery{query: *q, agent: string(doc.Unmonitor.Agent)}
		return k.changeMonitor(cmd, doc.Unmonitor.Name, monitor.CommandRemove)
	case doc.Unschedule != nil:
		return (&keptQuery{query: *q}).removeSchedule(cmd, doc.Unschedule.ID)
	}
	if err := nameZone(doc.Transfer.Schedule); err != nil {
		return err
	}
	put, err := translate.Schedule(doc, id)
	if err != nil {
		return err
	}
	at, s, err := q.makeSchedule(cmd, put)
	if err != nil {
		return err
	}
	f.saidOfSchedule(cmd, at, s)
	return nil
}

// nameZone gives a schedule the zone of this host, where its times are in the submitter's zone and it names none.
func nameZone(s *mftxml.Schedule) (err error) {
	if s != nil && s.TimeBase == "admin" && s.Zone == "" {
		s.Zone, err = schedule.ZoneOfHost()
	}
	return err
}

// readDocument reads a file, or standard input, as one document.
func readDocument(cmd *cobra.Command, name string) (*mftxml.Document, error) {
	data, err := readInput(cmd, "document", name, mftxml.MaxDocument)
	if err != nil {
		return nil, err
	}
	return mftxml.Parse(data)
}

// cancelTime is the time that an agent may take to answer the cancel of a document.
const cancelTime = 30 * time.Second

func cancelDocument(cmd *cobra.Command, f *sendFlags, c *mftxml.Cancel) error {
	q := &query{network: f.network, json: f.json, timeout: cancelTime}
	net, ctx, done, err := q.open(cmd)
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
	return q.control(ctx, cmd, net, command{"cancel", wire.ControlCancel}, client.Transfer{Source: p.Source, ID: p.ID})
}

// printXML prints the document for a command line of ferry send.
func printXML(cmd *cobra.Command, f *sendFlags, args []string) error {
	q, _, err := f.request(args, cmd.InOrStdin())
	if err != nil {
		return err
	}
	text, err := mftxml.Write(q)
	if err == nil {
		_, err = cmd.OutOrStdout().Write(text)
	}
	return err
}
