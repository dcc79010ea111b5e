package follow

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/client"
	"ferry/internal/client/view"
	"ferry/internal/node/onebox"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Preview lists the files that would be sent and their destinations. It returns the result that the transfer would have,
// as far as the preview shows it.
func Preview(ctx context.Context, cmd *cobra.Command, s *client.Client, q *transfer.Request, asJSON bool) error {
	p, err := s.Preview(ctx, q)
	if err != nil {
		return err
	}

	var counts transfer.Counts
	var first *transfer.Error
	for _, it := range p.List {
		if first == nil {
			first = it.Error
		}
		counts.Add(&transfer.Outcome{Type: it.Type, Size: it.Size, Err: it.Error})
	}

	if asJSON {
		output.JSON(cmd, view.PreviewOf(p))
	} else {
		showPreview(cmd, q, p, &counts)
	}

	code := counts.Ending().Code()
	if code == transfer.CodeNothing && first != nil {
		code = first.Kind.Code()
	}
	if unseen := p.More || p.Items > int64(len(p.List)); unseen && code == transfer.CodeNothing {
		code = transfer.CodePartial // as far as is known
	}

	if code != 0 {
		return output.Exit(code)
	}
	return nil
}

func showPreview(cmd *cobra.Command, q *transfer.Request, p *wire.Preview, counts *transfer.Counts) {
	out := cmd.OutOrStdout()
	there := q.Destination
	if there == onebox.Dest {
		there = ""
	}
	dest := output.ShownAt(there, q.Dest)

	for _, it := range p.List {
		to := output.At(there, it.Target)
		if it.Target == "" {
			to = dest // a data set
		}
		switch {
		case it.Error != nil && it.Error.Kind == transfer.KindSkipped:
			fmt.Fprintf(out, "would skip  %s: %s\n", it.Name, output.Printable(it.Error.Error()))
		case it.Error != nil:
			fmt.Fprintf(out, "would fail  %s: %s\n", output.Or(it.Name.String(), it.Source.String()), output.Printable(it.Error.Error()))
		case it.Type == transfer.ItemDir:
			fmt.Fprintf(out, "would make  %s/\n", to)
		default:
			fmt.Fprintf(out, "would send  %s to %s, %s\n", it.Name, to, transfer.FormatBytes(it.Size))
		}
	}

	if n := p.Items - int64(len(p.List)); n > 0 {
		fmt.Fprintf(out, "and %d more\n", n)
	}

	about := ""
	if p.More {
		about = "at least "
	}

	fmt.Fprintf(out, "%s%s, %s, to %s", about, output.Plural(p.Files, "file"), transfer.FormatBytes(p.Bytes), dest)
	if counts.FilesFailed > 0 {
		fmt.Fprintf(out, "; %d would fail", counts.FilesFailed)
	}

	if counts.FilesSkipped > 0 {
		fmt.Fprintf(out, "; %d would be skipped", counts.FilesSkipped)
	}

	if p.LeftOut > 0 {
		fmt.Fprintf(out, "; %d left out by size or age", p.LeftOut)
	}

	fmt.Fprintln(out)
	if slices.Contains(p.Exits, transfer.SourceStartExit) {
		fmt.Fprintf(out, "%s of agent %s decides when the transfer starts: it may cancel it, and leave out and rename files\n", transfer.SourceStartExit.Noun(), q.Source)
	}
	if slices.Contains(p.Exits, transfer.DestStartExit) {
		fmt.Fprintf(out, "%s of agent %s decides when the transfer starts: it may cancel it\n", transfer.DestStartExit.Noun(), q.Destination)
	}
}
