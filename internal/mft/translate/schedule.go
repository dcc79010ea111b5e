package translate

import (
	"slices"
	"strconv"

	"ferry/internal/automation/schedule"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// unitOf are Ferry's units of an interval, by MQ MFT's.
var unitOf = map[string]string{"minutes": "m", "hours": "h", "days": "d", "weeks": "w", "months": "mo", "years": "y"}

// Schedule returns the schedule of a transfer in a document. Its name is made of an ID. Its times are words
// that the agent makes a plan of. For times in the zone of the submitter the document names that zone.
func Schedule(d *mftxml.Document, id transfer.ID) (*schedule.Put, error) {
	once := *d.Transfer
	once.Schedule = nil
	q, err := (&mftxml.Document{Transfer: &once}).Request(id)
	if err != nil {
		return nil, err
	}
	words, err := wordsOf(d.Transfer.Schedule)
	if err != nil {
		return nil, err
	}
	p := &schedule.Put{Name: schedule.NameOf(id), PlanText: words, Missed: schedule.MissedOnce, Request: *q}
	_, err = schedule.ParsePut(wire.Marshal(p))
	return p, err
}

// wordsOf returns the words of a schedule in a document.
func wordsOf(s *mftxml.Schedule) (*schedule.PlanText, error) {
	words := &schedule.PlanText{At: s.Start, Until: s.Until, Count: int64(s.Count), Zone: s.Zone}
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
		if t != "" && !schedule.IsLocal(t) {
			return nil, transfer.Errorf(transfer.KindDocument, "the XML document has the time %.40q in its <schedule>; write it as yyyy-MM-ddThh:mm or hh:mm", t)
		}
	}
	if s.Every > 0 {
		words.Every = strconv.Itoa(s.Every) + unitOf[s.Interval]
		if _, err := schedule.ParseInterval(words.Every); err != nil {
			return nil, err
		}
	}
	return words, nil
}
