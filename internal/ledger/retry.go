package ledger

import "ferry/internal/transfer"

// A retrying is the entry of a transfer that is repeated now.
type retrying struct {
	V  int         `json:"v"`
	By transfer.ID `json:"by"`
}

// PutRetry records that a request repeats another transfer, until the request's own transfer is over. A transfer that is
// repeated keeps its entry. A request that repeats none changes nothing.
func PutRetry(t *Tx, q *transfer.Request) error {
	by, err := RetryInProgress(t, q)
	if q.Retry == nil || !by.IsZero() || err != nil {
		return err
	}
	return putJSON(t.tx.Bucket(bRetries), q.Retry.Of[:], retrying{recordVersion, q.ID})
}

// RetryInProgress returns the transfer that already repeats the one that a request is to repeat; zero if there is none.
func RetryInProgress(t *Tx, q *transfer.Request) (by transfer.ID, err error) {
	if q.Retry == nil {
		return by, nil
	}
	var r retrying
	_, err = getJSON(t.tx.Bucket(bRetries), "retry", q.Retry.Of[:], &r)
	return r.By, err
}

// endRetry drops the entry that PutRetry has made for a request.
func endRetry(t *Tx, q *transfer.Request) error {
	if by, err := RetryInProgress(t, q); q.Retry == nil || by != q.ID || err != nil {
		return err
	}
	return t.tx.Bucket(bRetries).Delete(q.Retry.Of[:])
}
