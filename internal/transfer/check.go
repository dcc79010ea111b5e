package transfer

import (
	"slices"
	"strings"
)

// Check refuses a request that is malformed, over a limit, or needs a function that this version lacks.
func (r *Request) Check() error {
	if r.Version < RequestVersion || r.Version > RequestVersion+1 {
		return Errorf(KindVersion, "request version %d is not spoken here; this is version %d", r.Version, RequestVersion)
	}

	if r.ID.IsZero() {
		return Errorf(KindUsage, "the request has no transfer ID")
	}

	for _, a := range []AgentName{r.Source, r.Destination} {
		if _, err := ParseAgentName(string(a)); err != nil {
			return err
		}
	}
	if err := r.checkItems(); err != nil {
		return err
	}
	if err := r.Scope.check(); err != nil {
		return err
	}
	if err := r.checkWords(); err != nil {
		return err
	}
	if err := r.Options.check(); err != nil {
		return err
	}
	if err := r.checkStored(); err != nil {
		return err
	}
	if r.Links == LinksFollow && r.Removes() {
		return Errorf(KindUsage, "--links follow does not go with --delete-source or --archive: deleting a link does not delete its file").
			WithHint("name the files themselves, or leave the sources where they are")
	}
	if err := r.checkTogether(); err != nil {
		return err
	}
	if err := r.checkPrograms(); err != nil {
		return err
	}
	return r.checkNumbers()
}

func (s *Scope) check() error {
	if err := s.Terms.check(); err != nil {
		return err
	}

	if err := checkTally(s.Tally); err != nil {
		return err
	}

	if s.Base != "" {
		if err := s.Base.Check(); err != nil {
			return err
		}
	}

	if s.Retry == nil {
		return nil
	}

	if s.Retry.Of.IsZero() {
		return Errorf(KindUsage, "a retry does not name its transfer")
	}

	paths := s.Retry.Only
	if to := s.Retry.Resolved; to != nil {
		paths = append(slices.Clip(paths), to.Base)
	}

	for _, p := range paths {
		if err := p.Check(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Request) checkWords() error {
	return checkWords([]word{
		{"durability", r.Durability, []string{DurabilityFull, DurabilityProcess}, nil},
		{"lane", r.Lane, []string{LaneAuto, LaneQueue, LaneDirect}, nil},
		{"delivery", r.Delivery, []string{DeliveryFast, DeliveryStored}, nil},
		{"compress", r.Compress, []string{CompressNone, CompressFast, CompressHigh, CompressAuto}, nil},
	})
}

// checkStored refuses options that stored delivery does not support.
func (r *Request) checkStored() error {
	switch {
	case !r.Stored():
		return nil
	case r.Lane == LaneDirect:
		return Errorf(KindUsage, "--lane direct goes past the queue manager, and --delivery stored is by way of it").
			WithHint("leave one of them out")
	case slices.ContainsFunc(r.Items, func(it RequestItem) bool { return it.Own() }):
		return Errorf(KindUsage, "--delivery stored sends everything to one DEST with the same options").
			WithHint("send the items that have a DEST or options of their own by themselves")
	}
	return nil
}

func (r *Request) checkNumbers() error {
	if r.Priority < 0 || r.Priority > 9 {
		return Errorf(KindUsage, "priority %d is out of range; it goes from 0 to 9", r.Priority)
	}

	if err := CheckLabels(r.Job, r.Meta); err != nil {
		return err
	}
	return r.Settings.Check()
}

// CheckLabels refuses a job name or metadata that cannot be stored.
func CheckLabels(job string, meta map[string]string) error {
	if len(meta) > MaxMeta {
		return Errorf(KindTooLarge, "the request has %d metadata entries; the limit is %d", len(meta), MaxMeta)
	}

	for k, v := range meta {
		if k == "" {
			return Errorf(KindUsage, "a metadata entry has no name")
		}
		if strings.ContainsRune(k+v, 0) {
			return Errorf(KindUsage, "metadata %.40q has a NUL", k)
		}
		if len(k)+len(v) > MaxMetaValue {
			return Errorf(KindTooLarge, "metadata %.40q has %d bytes; the limit is %d", k, len(k)+len(v), MaxMetaValue)
		}
	}

	if strings.ContainsRune(job, 0) {
		return Errorf(KindUsage, "the job name has a NUL")
	}

	if len(job) > MaxMetaValue {
		return Errorf(KindTooLarge, "the job name has %d bytes; the limit is %d", len(job), MaxMetaValue)
	}
	return nil
}

// checkItems checks the items of this message and the description of the rest.
func (r *Request) checkItems() error {
	if len(r.Items) == 0 {
		return Errorf(KindUsage, "the request names no source")
	}
	if err := r.Rest.check(); err != nil {
		return err
	}
	if !r.Dest.IsZero() || r.Rest == nil && slices.ContainsFunc(r.Items, func(it RequestItem) bool { return it.Dest.IsZero() }) {
		if err := r.Dest.CheckDest(); err != nil {
			return err
		}
	}
	return r.CheckItems(r.Items)
}

// CheckItems checks items of the request. They may be those of a part.
func (r *Request) CheckItems(items []RequestItem) error {
	for n := range items {
		if err := r.checkItem(&items[n]); err != nil {
			return err
		}
		if of, l := r.From(), items[n].Source; of != l.Place {
			return Errorf(KindUsage, "%s is in %s and the first source is in %s; they cannot be sent by one request", l, l.Place, of).
				WithHint("send them one after the other")
		}
		if items[n].Dest.Place == Queues && r.Together {
			return noSetOfMessages()
		}
	}
	return nil
}

func (r *Request) checkItem(it *RequestItem) error {
	if err := it.Source.Check(); err != nil {
		return err
	}

	if it.Dest.IsZero() && r.Dest.IsZero() {
		return Errorf(KindUsage, "nothing says where the source %s goes", it.Source)
	}

	if !it.Dest.IsZero() {
		if err := it.Dest.CheckDest(); err != nil {
			return err
		}
	}

	if it.Resolved != nil {
		if err := it.Resolved.Base.Check(); err != nil {
			return err
		}
	}

	if len(it.Expected) > MaxVersion {
		return Errorf(KindMalformed, "the expected version of %s has %d bytes; the limit is %d", it.Source, len(it.Expected), MaxVersion)
	}

	if it.Picked != "" {
		if it.Source.Place != Queues {
			return Errorf(KindMalformed, "%s is no queue, and has picked messages", it.Source)
		}
		if err := it.Picked.Check(); err != nil {
			return err
		}
	}

	if it.Options != (Options{}) {
		o := r.Of(it)
		if err := o.check(); err != nil {
			return err
		}
	}

	if r.Base == "" {
		return nil
	}

	if (it.Expected == "") != (r.Items[0].Expected == "") {
		return Errorf(KindMalformed, "the name %s beneath %s has an expected version and others have none, or it alone has none", it.Source, r.Base)
	}

	if it.Source != File(it.Source.Path) {
		return Errorf(KindUsage, "%s is to be a name beneath %s, and is a pattern or lies in another place than files", it.Source, r.Base)
	}

	if p := string(it.Source.Path); strings.HasPrefix(p, "/") || slices.Contains(strings.Split(p, "/"), "..") {
		return Errorf(KindUsage, "the name %s of --files-from leads out of %s; names begin without / and have no ..", it.Source, r.Base)
	}

	if it.Own() {
		return Errorf(KindUsage, "the name %s beneath %s has a destination or settings of its own; names of --files-from have none", it.Source, r.Base)
	}
	return nil
}
