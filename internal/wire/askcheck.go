package wire

import (
	"slices"
	"strings"

	"ferry/internal/transfer"
)

// The ranges of reports on agents, of the progress of transfers, and of questions and answers. check.go has the ranges
// of messages between two agents.
const (
	MaxReport     = 256 << 10 // bytes of a Report
	MaxAskControl = 128 << 10 // bytes of a Control
	maxName       = 256       // bytes of a host, a version, a platform, a lane, a state
	maxNames      = 256       // roots of an agent, primitives that its platform lacks
	maxSentence   = 4 << 10   // bytes of a reason
	maxRoots      = 16 << 10  // bytes of an agent's roots
	maxReply      = maxInbox  // bytes of a subject for an answer
	maxCount      = 1 << 31   // waiting transfers or records
)

// Fit truncates an agent's heartbeat to the limits of a Report.
func (b *Beat) Fit() {
	cut := func(s string, most int) string { return strings.ToValidUTF8(s[:min(len(s), most)], "") }
	b.Reason, b.Durability = cut(b.Reason, maxSentence), cut(b.Durability, maxSentence)
	b.Version, b.Platform, b.Host = cut(b.Version, maxName), cut(b.Platform, maxName), cut(b.Host, maxName)
	b.Roots = fitting(b.Roots)
}

// fitting returns the first roots that fit in the limits.
func fitting(roots []string) []string {
	size := 0
	for n, r := range roots {
		if size += len(r); n == maxNames || size > maxRoots {
			return roots[:n]
		}
	}
	return roots
}

// check describes the first field of a heartbeat that is out of range, or returns "".
func (b *Beat) check() string {
	if b == nil {
		return ""
	}

	counts := true
	for _, n := range []int{b.MaxSource, b.MaxDest, b.MaxQueued, b.SourceRun, b.SourceWait, b.DestRun, b.Parked, b.Outbox} {
		counts = counts && within(n, 0, maxCount)
	}

	return broken(
		rule{"no agent", b.Agent != ""},
		rule{"an incarnation or instance that is none", mark(b.Incarnation) && mark(b.Instance)},
		rule{"a word that is too long", short(b.Status, b.Version, b.Platform, b.Host, b.Mode)},
		rule{"a reason that is too long", len(b.Reason) <= maxSentence && len(b.Durability) <= maxSentence},
		rule{"too many roots", len(b.Roots) == len(fitting(b.Roots)) && len(b.Limits) <= maxNames && short(b.Limits...)},
		rule{"rates that are too long", ratesFit(b.Rates)},
		rule{"exits that are too long", exitsFit(b.Exits)},
		rule{"settings out of their range", b.Settings.Check() == nil},
		rule{"counts out of their range", counts})
}

// counted reports whether the counts of a transfer are in their ranges.
func counted(c *transfer.Counts) bool {
	return c.Items < MaxItems && short(c.Tally) && sizes(c.Files, c.FilesFailed, c.Dirs, c.Bytes, c.FilesSkipped, c.FilesReplaced, c.FilesLeftOut, c.LinksSkipped, c.TimesNotKept, c.Warnings)
}

func sizes(all ...int64) bool {
	return !slices.ContainsFunc(all, func(n int64) bool { return !within(n, 0, MaxSize) })
}

// progress describes the first field of a transfer's progress that is out of range, or returns "".
func progress(p *transfer.Progress) string {
	if p == nil {
		return ""
	}

	figures := counted(&p.Counts) && sizes(p.FilesTotal, p.BytesTotal, p.BytesSent, p.BytesHeld, p.RunAhead, p.Resumes, p.BytesResent, p.BytesWire, p.Rate)

	for n := range p.Failures {
		if what := outcome(&p.Failures[n]); what != "" {
			return "a failure with " + what
		}
	}

	return broken(
		rule{"no transfer ID", !p.ID.IsZero()},
		rule{"no agents", p.Source != "" && (p.Destination != "" || p.State.Final())}, // it ended before the agent knew its other end
		rule{"a word that is too long", short(string(p.State), p.Lane, p.Compress, p.Durability, p.Checksum, p.Request)},
		rule{"a text that is too long", len(p.Originator) <= MaxText && len(p.Job) <= MaxText && len(p.LaneReason) <= MaxText && sentence(p.Reason)},
		rule{"a path that is none", plainPath(p.Current, maxJoined)},
		rule{"a place out of its range", within(p.Place, 0, maxPlace)},
		rule{"settings out of their range", p.Settings.Check() == nil},
		rule{"figures out of their range", figures && within(p.Code, 0, 255)},
		rule{"a principal that is none", principal(p.CancelledBy) && (p.Acknowledged == nil || principal(p.Acknowledged.By))},
		rule{"too many failures", len(p.Failures) <= transfer.MaxFailures})
}

func (a *Ask) check() string {
	if what := progress(a.Queued); what != "" {
		return what
	}
	return broken(
		rule{"a filter that is too long", a.Filter.fits()},
		rule{"a path that is too long", len(a.Path) <= transfer.MaxPath},
		rule{"a word that is too long", short(string(a.Kind), a.Suffix, a.Event)},
		rule{"a place out of its range", within(a.Index, 0, MaxSize) && within(a.Limit, 0, maxCount) && within(a.Room, 0, MaxSize)})
}

// exitsFit reports whether the exits of an agent are within their bounds.
func exitsFit(exits []string) bool {
	ok := len(exits) <= len(transfer.ExitPoints())
	for _, e := range exits {
		ok = ok && len(e) <= transfer.MaxProgramName+maxName
	}
	return ok
}

// ratesFit reports whether the timetables of an agent are within their bounds.
func ratesFit(rates map[transfer.AgentName]string) bool {
	ok := len(rates) <= maxNames
	for to, text := range rates {
		ok = ok && len(to) <= maxName && len(text) <= MaxText
	}
	return ok
}

// fits reports whether a filter is within the bounds of a question's cost.
func (f *Filter) fits() bool {
	if f == nil {
		return true
	}
	ok := short(f.Role, string(f.From), string(f.To)) && len(f.User) <= MaxText && len(f.States) <= maxNames && len(f.Meta) <= maxNames && len(f.Job) <= MaxText && len(f.Name) <= MaxText && len(f.IDs) <= MaxIDs
	for _, s := range f.States {
		ok = ok && short(string(s))
	}
	for k, v := range f.Meta {
		ok = ok && len(k)+len(v) <= MaxText
	}
	return ok
}

func (a *Answer) check() string {
	if what := a.Beat.check(); what != "" {
		return what
	}
	if what := progress(a.Progress); what != "" {
		return what
	}
	return broken(rule{"an error that is too long", sentence(a.Error)})
}

func (r *Report) check() string {
	if what := r.Beat.check(); what != "" {
		return what
	}
	if what := progress(r.Progress); what != "" {
		return what
	}
	if what := r.Standby.check(); what != "" {
		return what
	}
	said := 0
	for _, is := range []bool{r.Beat != nil, r.Progress != nil, r.Standby != nil} {
		if is {
			said++
		}
	}
	return broken(rule{"nothing, or too much", said == 1})
}

// check describes the first field of a standby's report that is out of range, or returns "".
func (s *Standby) check() string {
	if s == nil {
		return ""
	}
	return broken(
		rule{"no agent", s.Agent != ""},
		rule{"an instance that is none", s.Instance != "" && mark(s.Instance)},
		rule{"a word that is too long", short(s.Status, s.Version, s.Platform, s.Host)},
		rule{"a reason that is too long", len(s.Reason) <= maxSentence})
}

func (c *Control) check() string {
	return broken(
		rule{"no ID", !c.ID.IsZero()},
		rule{"a word that is too long", short(string(c.Kind), c.Originator.User, c.Originator.Host)},
		rule{"a subject for the answer that is too long", len(c.Reply) <= maxReply})
}

func (s *Submit) check() string {
	return broken(
		rule{"a subject for the answer that is too long", len(s.Reply) <= maxReply},
		rule{"a part that is none", s.Part == nil || within(s.Part.From, 1, transfer.MaxRequest) && len(s.Part.Items) <= transfer.MaxPart && !s.Request.ID.IsZero()})
}

func short(words ...string) bool {
	for _, w := range words {
		if len(w) > maxName {
			return false
		}
	}
	return true
}
