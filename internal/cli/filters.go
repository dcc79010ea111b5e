package cli

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/audit"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// filterFlags select transfers or audit records, and bound their number.
type filterFlags struct {
	states, meta             []string
	agent, job, since, until string
	failed                   bool
	limit                    int
}

// addRecords adds the flags that select audit records.
func (f *filterFlags) addRecords(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.agent, "agent", "", "only of this agent, or of transfers from or to it")
	fl.StringVar(&f.job, "job", "", "only with such a job name; * and ? stand for any characters")
	fl.StringVar(&f.since, "since", "", "not before 18:00, 2026-11-01, '2026-11-01 18:00', RFC 3339, or a time ago as 90m, 12h, 2d")
	fl.StringVar(&f.until, "until", "", "before that time; written as --since")
	fl.IntVar(&f.limit, "limit", 1000, "how many at most")
}

// add adds the flags that select transfers.
func (f *filterFlags) add(c *cobra.Command) {
	fl := c.Flags()
	f.addRecords(c)
	fl.StringSliceVar(&f.states, "state", nil, "only in one of these states, such as running,waiting")
	fl.BoolVar(&f.failed, "failed", false, "only transfers with failed files")
	fl.StringArrayVar(&f.meta, "meta", nil, "only with this metadata, KEY=VALUE; may be repeated")
}

// filter builds the filter from the flags. Its errors are of KindUsage.
func (f *filterFlags) filter(now time.Time) (*wire.Filter, error) {
	if f.limit < 1 {
		return nil, transfer.Errorf(transfer.KindUsage, "--limit %d is out of range; it begins at 1", f.limit)
	}

	w := &wire.Filter{Failed: f.failed, Job: f.job}
	for _, s := range f.states {
		state := transfer.State(strings.ToLower(strings.TrimSpace(s)))
		if !slices.Contains(transfer.States(), state) {
			return nil, transfer.Errorf(transfer.KindUsage, "--state %q is unknown; it is one of %s", s, words(transfer.States()))
		}
		w.States = append(w.States, state)
	}

	var err error
	if f.agent != "" {
		if w.Agent, err = transfer.ParseAgentName(f.agent); err != nil {
			return nil, err
		}
	}
	if err := audit.CheckPattern(f.job); err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "--job %w", err)
	}

	if w.Since, err = parseWhen("since", f.since, now); err != nil {
		return nil, err
	}

	if w.Until, err = parseWhen("until", f.until, now); err != nil {
		return nil, err
	}

	if !w.Since.IsZero() && !w.Until.IsZero() && !w.Since.Before(w.Until) {
		return nil, transfer.Errorf(transfer.KindUsage, "--since %s is not before --until %s", stamp(w.Since), stamp(w.Until)).
			WithHint("a time of day is the last one that was; write the day, too")
	}

	for _, kv := range f.meta {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, transfer.Errorf(transfer.KindUsage, "--meta %q is not KEY=VALUE", kv)
		}
		if w.Meta == nil {
			w.Meta = map[string]string{}
		}
		w.Meta[k] = v
	}
	return w, nil
}

func words[T ~string](all []T) string {
	text := make([]string, len(all))
	for n, w := range all {
		text[n] = string(w)
	}
	return strings.Join(text, ", ")
}

// parseWhen reads a time: absolute, of the day, or so long ago. The zone is this
// host's where none is given.
func parseWhen(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}

	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}

	for _, layout := range []string{"2006-01-02", "2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}

	for _, layout := range []string{"15:04", "15:04:05"} {
		if c, err := time.Parse(layout, s); err == nil {
			t := time.Date(now.Year(), now.Month(), now.Day(), c.Hour(), c.Minute(), c.Second(), 0, now.Location())
			if t.After(now) { // the last time of day that was
				t = time.Date(now.Year(), now.Month(), now.Day()-1, c.Hour(), c.Minute(), c.Second(), 0, now.Location())
			}
			return t, nil
		}
	}

	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n < 100_000 {
			return now.AddDate(0, 0, -n), nil
		}
	}

	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}

	return time.Time{}, transfer.Errorf(transfer.KindUsage, "--%s %q is not a time", flag, s).
		WithHint("write 18:00, 2026-11-01, \"2026-11-01 18:00\", 2026-11-01T18:00:00Z, or 12h or 2d for so long ago")
}
