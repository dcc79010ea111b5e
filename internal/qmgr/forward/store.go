package forward

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/quota"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A RemoteTask is a task of an agent at another queue manager on its part of StreamStore here.
type RemoteTask struct {
	Asker string            `json:"asker"` // the agent's token
	Task  streams.StoreTask `json:"task"`
}

// clearers may ask for streams.StoreClear.
var clearers = []string{wire.Coordination, wire.Authority}

// check returns nil for a task that another queue manager may ask for.
func (t *RemoteTask) check() error {
	if name, err := wire.AgentOf(t.Asker); (err != nil || name.Token() != t.Asker) && t.Task.Do != streams.StoreClear {
		return transfer.Errorf(transfer.KindMalformed, "another queue manager asks for %.80q, which is no agent", t.Asker)
	}
	if !slices.Contains(errands.RemoteTasks, t.Task.Do) && t.Task.Do != streams.StoreClear {
		return transfer.Errorf(transfer.KindDenied, "another queue manager may not do %.40q with data stored here", t.Task.Do)
	}
	return nil
}

// doRemoteTask does a task for an agent of another queue manager, in its turn, as for those that are here.
func (f *Forwarder) doRemoteTask(b *Batch, from string, answer func([]byte)) {
	t := b.Store
	err := t.check()
	if err == nil && f.Registry.Identity != nil {
		of := []string{t.Asker}
		if t.Task.Do == streams.StoreClear {
			of = clearers
		}
		for _, token := range of {
			if _, err = f.Registry.Proves(b.Proofs, token, from, errands.RegistrationLife); err == nil {
				break
			}
		}
	}
	if err == nil && t.Task.Do != streams.StoreClear && f.WhereIs(t.Asker) == f.self {
		err = transfer.Errorf(transfer.KindBusy, "%s is at queue manager %s, and asks there itself", t.Asker, f.cfg.Name)
	}
	var body []byte
	if err == nil {
		t.Task.At = f.self
		body, err = json.Marshal(errands.Errand{V: 1, Op: errands.OpStore, Store: &t.Task})
	}
	if err != nil {
		answer(errands.ResultOf(errands.Result{}, err))
		return
	}
	f.cfg.Take(t.Asker, body, answer)
}

// WhereIs returns the token of the queue manager in the latest registration of an agent; empty if it is not known.
func (f *Forwarder) WhereIs(agent string) string {
	at := f.Registry.Where(agent)
	if at != "" && f.Registry.Identity == nil {
		return at // agents say the cluster's name themselves
	}
	if at != "" {
		at = f.Registry.DomainOf(at)
	}
	return at
}

// StoredAt returns the token of the queue manager that does a task; empty: this one.
func (f *Forwarder) StoredAt(t streams.StoreTask) string {
	at := t.At
	if at == "" && t.Do == streams.StoreOutgoing && t.Peer != "" {
		at = f.WhereIs(t.Peer)
	}
	if at == f.self {
		return ""
	}
	return at
}

// Others returns the tokens of the other queue managers that can be reached, and of the one that an identity is at.
func (f *Forwarder) Others(token string) []string {
	all := f.Announcer.domains()
	if at := f.WhereIs(token); at != "" && at != f.self && !slices.Contains(all, at) {
		all = append(all, at) // it may not have been heard yet
	}
	return all
}

// AskStore has another queue manager do a task.
func (f *Forwarder) AskStore(ctx context.Context, at, asker string, t streams.StoreTask) (streams.StoreResult, error) {
	f.Mu.Lock()
	blocked := time.Now().Before(f.Blocked[at])
	f.Mu.Unlock()
	if blocked { // requests to a blocked queue manager fail at once, and do not delay requests to this one
		return streams.StoreResult{}, noChannel(at)
	}
	b := Batch{V: 1, Store: &RemoteTask{asker, t}}
	if t.Do == streams.StoreClear {
		for _, token := range clearers {
			f.prove(&b, token)
		}
	} else {
		f.prove(&b, asker)
	}
	data, err := json.Marshal(b)
	if err != nil {
		return streams.StoreResult{}, err
	}
	answer, err := errands.Request(ctx, f.Own.NATS(), wire.ForwardSubject(at, f.Registry.Self), f.inbox(at), data)
	if err != nil && f.ctx.Err() == nil {
		f.Mu.Lock()
		f.Blocked[at] = time.Now().Add(forwardAgain)
		f.Mu.Unlock()
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return streams.StoreResult{}, noChannel(at)
	case err != nil:
		return streams.StoreResult{}, err
	}
	var res errands.Result
	switch err := json.Unmarshal(answer, &res); {
	case err != nil || res.V != 1 || res.Error == nil && res.Store == nil:
		return streams.StoreResult{}, transfer.Errorf(transfer.KindVersion, "the answer of queue manager %s cannot be read", at)
	case res.Error != nil:
		return streams.StoreResult{}, res.Error
	}
	return *res.Store, nil
}

func noChannel(to string) error {
	return transfer.Errorf(transfer.KindUnreachable, "no channel leads to queue manager %s at present", to).
		WithHint("it goes on when `ferry channel ls` says that the channel runs again")
}

// storeForAgent has the server store the messages of an agent at another queue manager for an agent that is here. The server's
// receipt goes to the inbox that the message names. Without a receipt the source sends the message again.
func (f *Forwarder) storeForAgent(m *nats.Msg) {
	from, ok := wire.ReadFarStore(m.Subject)
	subject, inbox, data, err := errands.ReadRemoteMessage(m.Data)
	if err == nil && ok {
		asker, answerer, named := wire.ReadInbox(inbox)
		var at wire.StoredEpoch
		at, err = wire.ReadStore(subject)
		ok = named && asker == from && answerer == errands.StoreToken+f.self && at.From.Token() == from && !wire.TooLong(subject)
	}
	if err != nil || !ok {
		f.quiet.Dropped(errands.Shortened(from, streams.MaxToken), "a message to be stored for an agent cannot be read", "error", err)
		return
	}
	class, to := wire.ClassOf(subject)
	if !f.cfg.Limits.Knows(to) {
		f.Own.NATS().Publish(inbox, streams.StreamError(streams.NotEnrolled(to)))
		return
	}
	via := f.WhereIs(from)
	if via == f.self {
		via = ""
	}
	if err := f.cfg.Limits.Admit(class, quota.Message{Subject: subject, Member: from, Destination: to, Via: via, Size: len(data)}); err != nil {
		f.Own.NATS().Publish(inbox, streams.StreamError(streams.NoShare(err)))
		return
	}
	f.Own.NATS().PublishMsg(&nats.Msg{Subject: subject, Reply: inbox, Data: data})
}
