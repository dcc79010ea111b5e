package queuemanager

import (
	"sync"
	"time"

	"ferry/internal/security/access"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
)

// rulesAge is the greatest age of the rules that allow an errand of a queue.
const rulesAge = time.Second

// queueRules checks errands of queues against the newest trust document in this process. Until there is one, the agents
// alone decide.
type queueRules struct {
	document func() (*trust.Document, error)

	mu    sync.Mutex
	judge *access.Judge // nil: there was no document
	read  time.Time     // when the document was read
}

// may checks the rules for a principal at an agent. A refusal is always one of rules that were read for this call.
func (q *queueRules) may(principal string, right transfer.Authority, agent transfer.AgentName, path string) error {
	j, fresh := q.rules(false)
	err := checkRight(j, principal, right, agent, path)
	if err != nil && !fresh {
		j, _ = q.rules(true)
		err = checkRight(j, principal, right, agent, path)
	}
	return err
}

func checkRight(j *access.Judge, principal string, right transfer.Authority, agent transfer.AgentName, path string) error {
	if j == nil && right == transfer.AuthAdmin { // which no agent checks again
		return transfer.Errorf(transfer.KindBusy, "the rules of the network are not here yet").WithHint("try again in a few seconds")
	}
	if j == nil {
		return nil
	}
	_, err := j.Ask(access.Question{Principal: principal, Right: right, Agent: agent, Path: path})
	return err
}

// rules returns the rules of the newest document. fresh says that they were read for this call.
func (q *queueRules) rules(now bool) (j *access.Judge, fresh bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if age := time.Since(q.read); !now && q.judge != nil && age >= 0 && age < rulesAge {
		return q.judge, false
	}
	d, err := q.document()
	if err != nil || d == nil {
		return q.judge, true
	}
	if q.judge == nil {
		q.judge = access.NewJudge(d.Network, nil, false)
	}
	q.read = time.Now()
	if err := q.judge.Take(d); err != nil && q.judge.Ready() != nil {
		return nil, true // the agents say that the rules cannot be read
	}
	return q.judge, true
}
