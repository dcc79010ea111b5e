package ledger

import (
	"slices"

	"ferry/internal/transfer"
)

// A retrying is the entry of a transfer that is repeated now.
type retrying struct {
	V  int         `json:"v"`
	By transfer.ID `json:"by"`
}

// retryKey returns the key of an entry that holds for a principal; "": for all.
func retryKey(of transfer.ID, principal string) []byte {
	if principal == "" {
		return of[:]
	}
	return slices.Concat(of[:], []byte(principal))
}

// PutRetry records that a request repeats another transfer, until the request's own transfer is over. The entry holds for
// one principal, with "" for all. A transfer that is repeated keeps its entry. A request that repeats none
// changes nothing.
func PutRetry(t *Tx, q *transfer.Request, principal string) error {
	by, err := RetryInProgress(t, q, principal)
	if q.Retry == nil || !by.IsZero() || err != nil {
		return err
	}
	return putJSON(t.tx.Bucket(bRetries), retryKey(q.Retry.Of, principal), retrying{recordVersion, q.ID})
}

// RetryInProgress returns the transfer that already repeats the one that a request of a principal is to repeat; zero if
// there is none.
func RetryInProgress(t *Tx, q *transfer.Request, principal string) (by transfer.ID, err error) {
	if q.Retry == nil {
		return by, nil
	}
	for _, of := range []string{"", principal} {
		var r retrying
		if _, err = getJSON(t.tx.Bucket(bRetries), "retry", retryKey(q.Retry.Of, of), &r); err != nil || !r.By.IsZero() {
			return r.By, err
		}
	}
	return by, nil
}

// endRetry drops the entry that PutRetry has made for a request of a principal.
func endRetry(t *Tx, q *transfer.Request, principal string) error {
	if q.Retry == nil {
		return nil
	}
	for _, of := range []string{"", principal} {
		var r retrying
		key := retryKey(q.Retry.Of, of)
		if _, err := getJSON(t.tx.Bucket(bRetries), "retry", key, &r); err != nil {
			return err
		}
		if r.By == q.ID {
			return t.tx.Bucket(bRetries).Delete(key)
		}
	}
	return nil
}
