package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"ferry/internal/submit"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// dryRun lists what would be sent.
func dryRun(ctx context.Context, cmd *cobra.Command, s *submit.Submitter, q *transfer.Request, asJSON bool) error {
	p, err := s.Preview(ctx, q)
	if err != nil {
		return err
	}
	if asJSON {
		printJSON(cmd, struct {
			MessageType string `json:"message_type"`
			*wire.Preview
		}{"preview", p})
		return nil
	}
	out := cmd.OutOrStdout()
	for _, it := range p.List {
		switch {
		case it.Error != nil:
			fmt.Fprintf(out, "would fail  %s: %s\n", it.Source, printable(it.Error.Error()))
		case it.Type == transfer.ItemDir:
			fmt.Fprintf(out, "would make  %s/\n", it.Name)
		default:
			fmt.Fprintf(out, "would send  %s  %s\n", it.Source, transfer.FormatBytes(it.Size))
		}
	}
	if n := p.Items - int64(len(p.List)); n > 0 {
		fmt.Fprintf(out, "… and %d more\n", n)
	}
	about := ""
	if p.More {
		about = "at least "
	}
	fmt.Fprintf(out, "%s%s, %s, to %s\n", about, plural(p.Files, "file"), transfer.FormatBytes(p.Bytes), transfer.Location{Agent: q.Destination, Path: q.Dest})
	return nil
}
