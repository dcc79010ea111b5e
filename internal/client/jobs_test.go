package client

import (
	"testing"
	"time"

	"ferry/internal/automation/job"
	"ferry/internal/transfer"
)

func jobChild(n int, to string, state transfer.State) job.Child {
	return job.Child{N: n, Destination: transfer.AgentName(to), Dest: transfer.File("in/"), Transfer: transfer.NewID(time.Now()), State: state}
}

// A retry has the destinations that were not successful, leaves the sources, and takes the same files.
func TestRetryOfAJob(t *testing.T) {
	c := &Client{Who: transfer.Originator{User: "ann", Host: "box"}}
	made := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := &job.Shown{Job: job.Job{ID: transfer.NewID(made), Ended: made, State: transfer.Partial},
		Request: &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(made), Submitted: made, Source: "ALPHA", Destination: "BETA", Dest: transfer.File("in/"), Items: transfer.ItemsOf("*"),
			Options: transfer.Options{Disposition: transfer.DispositionDelete}},
		Of: []job.Child{jobChild(1, "BETA", transfer.Successful), jobChild(2, "CHI", transfer.Cancelled), jobChild(3, "PSI", transfer.Failed)}}
	s.Request.Filter.MinAge = transfer.Duration(time.Hour)
	s.Of[2].Retry = &transfer.Retry{Of: s.ID, Only: []transfer.Path{"a"}} // it was refused, and was a retry itself
	p, err := RetryJob(t.Context(), c, s, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	if len(p.To) != 2 || p.To[0].Agent != "CHI" || p.To[0].Retry != nil || p.To[1].Retry == nil || p.Request.Destination != "CHI" {
		t.Errorf("it goes to %+v", p.To)
	}
	q := &p.Request
	if q.Removes() || p.RetryOf != s.ID || q.ID == s.Request.ID || !q.Filter.AsOf.Equal(made) || q.Originator != c.Who {
		t.Errorf("its request is %+v", q)
	}

	for _, over := range []struct {
		state transfer.State
		ended time.Time
	}{{transfer.Successful, made}, {transfer.Running, time.Time{}}} {
		s.State, s.Ended = over.state, over.ended
		if _, err := RetryJob(t.Context(), c, s, ""); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("a job that is %s is retried: %v", over.state, err)
		}
	}
}
