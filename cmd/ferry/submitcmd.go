package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/client"
	"ferry/internal/mftxml"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

func newSubmit() *cobra.Command {
	f := &sendFlags{}
	var wait bool
	c := &cobra.Command{
		Use:   "submit [flags] FILE",
		Short: "Submit a request in the XML of IBM MQ MFT",
		Long: `Submits what an XML document of IBM MQ Managed File Transfer asks for: a transfer,
or the cancelling of one. FILE is the document; - is standard input. What Ferry
cannot do of it is refused by the name of its element, and nothing is sent then.
The ID of the transfer is printed; with --wait the result code is the transfer's.

Result codes: 43 the document is malformed, 64 it asks for what is not built; and
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
	fl.BoolVar(&wait, "wait", false, "wait for the end of the transfer")
	fl.BoolVar(&f.dryRun, "dry-run", false, "say what would be sent, and send nothing")
	addNetwork(fl, &f.network)
	fl.StringVar(&f.connectTimeout, "connect-timeout", "30s", "how long to try to reach a queue manager before the transfer is handed over, -1 for ever; then 75")
	fl.BoolVar(&f.json, "json", false, "JSON Lines on stdout")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress, no notices and no summary; errors are shown")
	f.log.add(c, "error")
	return c
}

// submit does what a document asks for.
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
	if doc.Cancel != nil {
		return cancelDocument(cmd, f, doc.Cancel)
	}

	id := doc.ID
	if id.IsZero() {
		id = transfer.NewID(time.Now())
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

// readDocument reads a file, or standard input, as one document.
func readDocument(cmd *cobra.Command, name string) (*mftxml.Document, error) {
	data, err := readInput(cmd, "document", name, mftxml.MaxDocument)
	if err != nil {
		return nil, err
	}
	return mftxml.Parse(data)
}

// cancelTime is how long an agent may take to answer the cancel of a document.
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

// printXML prints what a command line of ferry send asks for.
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
