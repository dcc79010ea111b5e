package translate

import (
	"strings"
	"testing"
	"time"

	"ferry/internal/automation/duty"
	"ferry/internal/automation/duty/dutytest"
	"ferry/internal/automation/schedule"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// inXML is a transfer of MQ MFT with the XML of a schedule.
func inXML(schedule string) string {
	return `<request version="6.00"><managedTransfer><originator><hostName>desk</hostName><userID>bob</userID></originator>` + schedule +
		`<sourceAgent agent="ALPHA"/><destinationAgent agent="BETA"/><transferSet><item><source><file>a</file></source><destination><file>b</file></destination></item></transferSet></managedTransfer></request>`
}

// A scheduler is agent ALPHA with the duty of schedules.
type scheduler struct {
	*dutytest.Agent
	duty duty.Duty
}

func newScheduler(t *testing.T, now string) *scheduler {
	t.Helper()
	at, err := time.Parse(time.RFC3339, now)
	if err != nil {
		t.Fatal(err)
	}
	s := &scheduler{Agent: dutytest.New(t, at)}
	s.duty, err = schedule.New(s.Start())
	s.Must(err)
	return s
}

// reads returns the command in a document; no kind: it has none.
func (s *scheduler) reads(doc string, id transfer.ID) (kind wire.Kind, body any, err error) {
	s.T.Helper()
	d, err := mftxml.Parse([]byte(doc))
	s.Must(err)
	if kind = Kind(d); kind != "" {
		body, err = Command(d, id, "ALPHA")
	}
	return kind, body, err
}

func (s *scheduler) show(name string) *schedule.Schedule {
	s.T.Helper()
	shown, err := s.duty.Questions()[schedule.AskShow].Answer(duty.Caller{Origin: word.Origin{Principal: "ann"}}, wire.Marshal(schedule.Named{Name: name}))
	s.Must(err)
	return shown.(*schedule.Schedule)
}

// The times of a document are those of its time base, counted from when it was asked for, however late the
// agent reads it.
func TestSchedulesInXML(t *testing.T) {
	t.Setenv("TZ", "Asia/Kolkata") // the agent's
	for times, want := range map[string]string{
		`<submit timebase="UTC">2026-03-10T21:00</submit>`:                            "at 2026-03-10T21:00:00Z",
		`<submit timebase="admin" timezone="Europe/London">2026-07-10T21:00</submit>`: "at 2026-07-10T20:00:00Z",
		`<submit timebase="source">21:00</submit>`:                                    "at 2026-03-02T15:30:00Z",
		`<submit timebase="source" timezone="Europe/London">21:00</submit>`:           "at 2026-03-02T21:00:00Z",
		`<submit timezone="Europe/London">2026-03-10T21:00</submit><repeat><frequency interval="hours">2</frequency><expireTime>2026-03-11T00:00</expireTime></repeat>`: "at 2026-03-10T21:00:00Z, every 2h in Europe/London, until 2026-03-11T00:00:00Z",
		`<submit timebase="UTC">2026-03-10T21:00</submit><repeat><frequency interval="months">3</frequency><expireCount>9</expireCount></repeat>`:                       "at 2026-03-10T21:00:00Z, every 3mo in UTC, 9 times",
		`<submit timebase="UTC">2026-03-10T21:00</submit><repeat><frequency interval="minutes">90</frequency></repeat>`:                                                 "at 2026-03-10T21:00:00Z, every 1h30m in UTC",
		`<submit timebase="UTC">2026-03-10T21:00</submit><repeat><frequency interval="weeks">2</frequency></repeat>`:                                                    "at 2026-03-10T21:00:00Z, every 2w in UTC",
		`<submit timebase="UTC">2026-03-02T12:30</submit><repeat><frequency interval="years">1</frequency></repeat>`:                                                    "at 2026-03-02T12:30:00Z, every 1y in UTC",
	} {
		w := newScheduler(t, "2026-03-02T14:00:00Z") // the agent was away for two hours
		asked, _ := time.Parse(time.RFC3339, "2026-03-02T12:00:00Z")
		id := transfer.NewID(asked)
		kind, body, err := w.reads(inXML("<schedule>"+times+"</schedule>"), id)
		if err != nil || kind != schedule.CommandPut {
			t.Errorf("%s: %s, %v", times, kind, err)
			continue
		}
		if _, err := w.Do(w.duty, "ann", asked, kind, body); err != nil {
			t.Errorf("%s: %v", times, err)
			continue
		}
		s := w.show(schedule.NameOf(id))
		if s.Plan.String() != want || s.Missed != schedule.MissedOnce || s.Request.Originator.User != "bob" {
			t.Errorf("%s is %s, not %s: %+v", times, s.Plan, want, s)
		}

		kind, body, err = w.reads("<request><deleteScheduledTransfer><ID>"+s.Name+"</ID></deleteScheduledTransfer></request>", id)
		if err != nil || kind != schedule.CommandRemove {
			t.Fatalf("%s, %v", kind, err)
		}
		if _, err := w.Do(w.duty, "ann", w.Clock.At, kind, body); err != nil {
			t.Error(err)
		}
	}
}

func TestSchedulesInXMLThatAreRefused(t *testing.T) {
	w := newScheduler(t, "2026-03-02T14:00:00Z")
	for times, says := range map[string]string{
		``:                                  "<schedule> without <submit>",
		`<submit>2026-03-10T21:00</submit>`: "without its time zone",
		`<submit timebase="UTC" timezone="Europe/London">2026-03-10T21:00</submit>`:                                    "which are two time zones",
		`<submit timebase="source" timezone="Mars/Olympus">21:00</submit>`:                                             `time zone "Mars/Olympus" is unknown`,
		`<submit timebase="UTC">soon</submit>`:                                                                         `the time "soon" in its <schedule>`,
		`<submit timebase="UTC">+2h</submit>`:                                                                          `the time "+2h" in its <schedule>`,
		`<submit timebase="UTC">2026-03-10T21:00:00Z</submit>`:                                                         "in its <schedule>",
		`<submit timebase="UTC">2026-03-01T21:00</submit>`:                                                             "is over",
		`<submit timebase="UTC">2026-03-10T21:00</submit><repeat><frequency interval="years">200</frequency></repeat>`: "interval 200y is out of range",
		`<submit timebase="UTC">2026-03-10T21:00</submit><repeat><frequency interval="days">1</frequency><expireTime>2026-03-09T21:00</expireTime></repeat>`: "before it begins",
	} {
		now := w.Clock.At
		kind, body, err := w.reads(inXML("<schedule>"+times+"</schedule>"), transfer.NewID(now))
		if err == nil {
			_, err = w.Do(w.duty, "ann", now, kind, body)
		}
		if k := transfer.KindOf(err); k != transfer.KindUsage && k != transfer.KindDocument || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", times, err)
		}
	}
	if kind, _, err := w.reads(inXML(""), transfer.NewID(w.Clock.At)); kind != "" || err != nil {
		t.Errorf("a transfer without a schedule is taken for one: %s, %v", kind, err)
	}
}

func FuzzScheduleInXML(f *testing.F) {
	for _, s := range []string{`<submit timebase="UTC">21:00</submit>`, `<submit timezone="Europe/London">2026-03-10T21:00</submit><repeat><frequency interval="days">2</frequency><expireCount>3</expireCount></repeat>`} {
		f.Add(s)
	}
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := mftxml.Parse([]byte(inXML("<schedule>" + text + "</schedule>")))
		if err != nil {
			return
		}
		p, err := Schedule(d, transfer.NewID(now))
		var plan schedule.Plan
		if err == nil {
			plan, err = p.PlanText.Plan(now, schedule.ZoneOfHost)
		}
		if err != nil {
			if transfer.KindOf(err) == transfer.KindInternal {
				t.Fatal(err)
			}
			return
		}
		times, err := plan.Times()
		if err != nil {
			t.Fatalf("%s makes a plan that is none: %v", text, err)
		}
		if at, ok := times.At(0); !ok || !at.After(now) {
			t.Errorf("%s begins at %s", text, at)
		}
	})
}
