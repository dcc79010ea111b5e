package schedule

import (
	"slices"
	"strconv"
	"time"

	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// unitOf are Ferry's units of an interval, by MQ MFT's.
var unitOf = map[string]string{"minutes": "m", "hours": "h", "days": "d", "weeks": "w", "months": "mo", "years": "y"}

// Read returns the command in a document of MQ MFT: to make a schedule, or to remove one. It implements duty.Reader.
func (k *keeper) Read(d *mftxml.Document, id transfer.ID) (wire.Kind, any, error) {
	switch {
	case d.Transfer != nil && d.Transfer.Schedule != nil:
		p, err := FromDocument(d, id)
		return CommandPut, p, err
	case d.Unschedule != nil:
		return CommandRemove, Named{d.Unschedule.ID}, nil
	}
	return "", nil, nil
}

// NameOf is the name of a schedule that was given none.
func NameOf(id transfer.ID) string { return id.String()[24:] }

// FromDocument is the schedule of a transfer in a document of MQ MFT. Its name is made of an ID. Its times are words
// that the agent makes a plan of. For times in the zone of the submitter the document names that zone.
func FromDocument(d *mftxml.Document, id transfer.ID) (*Put, error) {
	once := *d.Transfer
	once.Schedule = nil
	q, err := (&mftxml.Document{Transfer: &once}).Request(id)
	if err != nil {
		return nil, err
	}
	words, err := WordsOf(d.Transfer.Schedule)
	if err != nil {
		return nil, err
	}
	p := &Put{Name: NameOf(id), Words: words, Missed: MissedOnce, Request: *q}
	_, err = ParsePut(wire.Marshal(p))
	return p, err
}

// WordsOf are the words of a schedule in a document of MQ MFT.
func WordsOf(s *mftxml.Schedule) (*Words, error) {
	words := &Words{At: s.Start, Until: s.Until, Count: int64(s.Count), Zone: s.Zone}
	switch {
	case s.Start == "":
		return nil, transfer.Errorf(transfer.KindDocument, "the XML document has a <schedule> without <submit>, the time of the first transfer")
	case s.TimeBase == "admin" && s.Zone == "":
		return nil, transfer.Errorf(transfer.KindDocument, `the XML document has <submit timebase="admin"> without its time zone`).WithHint(`write timezone="Europe/London", or another timebase`)
	case s.TimeBase == "utc":
		if !slices.Contains([]string{"", "UTC", "Etc/UTC", "GMT"}, s.Zone) {
			return nil, transfer.Errorf(transfer.KindDocument, `the XML document has <submit timebase="UTC" timezone="%.40s">, which are two time zones`, s.Zone)
		}
		words.Zone = "UTC"
	}
	for _, t := range []string{s.Start, s.Until} {
		if t != "" && !isLocal(t) {
			return nil, transfer.Errorf(transfer.KindDocument, "the XML document has the time %.40q in its <schedule>; write it as yyyy-MM-ddThh:mm or hh:mm", t)
		}
	}
	if s.Every > 0 {
		words.Every = strconv.Itoa(s.Every) + unitOf[s.Interval]
		if _, err := ParseInterval(words.Every); err != nil {
			return nil, err
		}
	}
	return words, nil
}

// isLocal reports whether a text is a time of day, or a date and time without a zone.
func isLocal(s string) bool {
	for _, form := range append([]string{"15:04", "15:04:05"}, localForms...) {
		if _, err := time.Parse(form, s); err == nil {
			return true
		}
	}
	return false
}

// due is the plan of the words of a Put, for an agent that is asked at a time.
func (p *Put) due(asked time.Time) (err error) {
	if p.Words != nil {
		p.Plan, err = p.Words.Plan(asked, ZoneOfHost)
	}
	return err
}
