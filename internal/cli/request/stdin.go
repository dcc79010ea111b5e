package request

import (
	"ferry/internal/cli/output"
	"ferry/internal/place/pipe"
	"ferry/internal/transfer"
)

// IsStream reports whether a request sends standard input.
func IsStream(q *transfer.Request) bool {
	return len(q.Items) == 1 && q.Items[0].Source == pipe.Stdio && (q.Source == "" || q.Source.Stream())
}

// fromStdin fills in where standard input is sent to.
func (f *Flags) fromStdin(q *transfer.Request) (local bool, err error) {
	switch {
	case len(q.Items) > 1:
		return false, transfer.Errorf(transfer.KindUsage, "standard input is sent alone; it stands beside %s", output.Plural(int64(len(q.Items)-1), "other source"))
	case f.FilesFrom != "" || f.Detach || f.DryRun || f.deleting() != "" || f.archive != "" || f.together:
		return false, transfer.Errorf(transfer.KindUsage, "standard input is not sent with --files-from, --detach, --dry-run, --delete-source, --archive or --together").
			WithHint("a file with the name - is ./-")
	case f.choiceFlags != choiceFlags{}:
		return false, transfer.Errorf(transfer.KindUsage, "standard input is one file; its size and age are unknown before it ends").
			WithHint("leave out --min-file-size, --max-file-size, --min-age, --max-age, --order, --links and --permissions")
	}

	if f.Delivery == transfer.DeliveryStored {
		return false, transfer.Errorf(transfer.KindUsage, "standard input is read once, and --delivery stored may have to send something again").
			WithHint("send it without, or put it into a file first")
	}

	if q.Destination != "" {
		q.Source = transfer.StreamAgent(q.ID)
		return false, nil
	}

	q.Dest, err = HostLocation(q.Dest)
	return true, err
}
