package audit

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/audit"
	"ferry/internal/cli/output"
	"ferry/internal/client"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// FilterFlags select transfers or audit records, and bound their number.
type FilterFlags struct {
	states, meta             []string
	agent, job, since, until string
	from, to, user           string
	failed, all              bool
	Limit                    int
}

// addRecords adds the flags that select audit records.
func (f *FilterFlags) addRecords(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.agent, "agent", "", "only of this agent, or of transfers from or to it")
	fl.StringVar(&f.job, "job", "", "only with such a job name; * and ? stand for any characters")
	fl.StringVar(&f.since, "since", "", "not before 18:00 (the last one that has passed), today, yesterday, 2026-11-01, '2026-11-01 18:00', in this host's time zone; or RFC 3339, or a time ago as 90m, 12h, 2d")
	fl.StringVar(&f.until, "until", "", "before that time; written as --since")
	fl.IntVar(&f.Limit, "limit", 1000, "how many at most")
}

// choice are the flags of AddChoice.
var choice = []string{"since", "until", "job", "agent", "from", "to", "user", "meta"}

// AddChoice adds the flags that select transfers, but for their states.
func (f *FilterFlags) AddChoice(c *cobra.Command) {
	f.addRecords(c)
	f.addEnds(c)
}

// Chosen returns the name of a flag of AddChoice that is given; "": none is.
func (f *FilterFlags) Chosen(c *cobra.Command) string {
	for _, name := range choice {
		if c.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// Add adds the flags that select transfers.
func (f *FilterFlags) Add(c *cobra.Command) {
	fl := c.Flags()
	f.addRecords(c)
	fl.StringSliceVar(&f.states, "state", nil, "only in one of these states, such as running,waiting")
	fl.BoolVar(&f.failed, "failed", false, "only transfers with failed files")
	f.addEnds(c)
}

// AddAll adds the flag --all to a list of transfers, where --failed leaves out those that were repeated or
// acknowledged.
func (f *FilterFlags) AddAll(c *cobra.Command) {
	c.Flags().BoolVar(&f.all, "all", false, "with --failed, those that were repeated or acknowledged, too")
}

func (f *FilterFlags) addEnds(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.from, "from", "", "only from this agent")
	fl.StringVar(&f.to, "to", "", "only to this agent")
	fl.StringVar(&f.user, "user", "", "only submitted by this user; * and ? stand for any characters")
	fl.StringArrayVar(&f.meta, "meta", nil, "only with this metadata, KEY=VALUE; may be repeated")
}

// Filter builds the filter from the flags. Its errors are of KindUsage.
func (f *FilterFlags) Filter(now time.Time) (*wire.Filter, error) {
	if f.Limit < 1 {
		return nil, transfer.Errorf(transfer.KindUsage, "--limit %d is out of range; it begins at 1", f.Limit)
	}

	if f.all && !f.failed {
		return nil, transfer.Errorf(transfer.KindUsage, "--all belongs to --failed; without it the list has all transfers")
	}
	w := &wire.Filter{Failed: f.failed, Open: f.failed && !f.all, Job: f.job}
	for _, s := range f.states {
		state := transfer.State(strings.ToLower(strings.TrimSpace(s)))
		if !slices.Contains(transfer.States(), state) {
			return nil, transfer.Errorf(transfer.KindUsage, "--state %q is unknown; it is one of %s", s, output.Words(transfer.States()))
		}
		w.States = append(w.States, state)
	}

	var err error
	for _, a := range []struct {
		text string
		name *transfer.AgentName
	}{{f.agent, &w.Agent}, {f.from, &w.From}, {f.to, &w.To}} {
		if a.text != "" {
			if *a.name, err = transfer.ParseAgentName(a.text); err != nil {
				return nil, err
			}
		}
	}
	w.User = f.user
	if err := audit.CheckPattern(f.user); err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "--user %w", err)
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
		return nil, transfer.Errorf(transfer.KindUsage, "--since %s is not before --until %s", output.Stamp(w.Since), output.Stamp(w.Until)).
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

// CheckAgents refuses an agent of the filter that the network does not know. An empty list needs that: it does not tell an
// agent without transfers from a wrong name.
func (f *FilterFlags) CheckAgents(ctx context.Context, net *client.Client) error {
	for _, name := range []string{f.agent, f.from, f.to} {
		if name == "" {
			continue
		}
		agent, err := transfer.ParseAgentName(name)
		if err == nil {
			err = client.AtAgent{Client: net, Agent: agent}.Known(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
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

	for word, days := range map[string]int{"today": 0, "yesterday": -1} {
		if s == word {
			return time.Date(now.Year(), now.Month(), now.Day()+days, 0, 0, 0, 0, now.Location()), nil
		}
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
		WithHint("write 18:00, today, yesterday, 2026-11-01, \"2026-11-01 18:00\", 2026-11-01T18:00:00Z, or 12h or 2d for so long ago")
}
