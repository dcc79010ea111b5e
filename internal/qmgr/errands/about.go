package errands

import (
	"strings"
	"time"
)

// About is the answer of an embedded queue manager to a question about itself. Unknown fields are ignored.
type About struct {
	V          int    `json:"v"`
	Name       string `json:"name"`
	Sync       string `json:"sync"` // "always": synced before acknowledged
	MaxPayload int64  `json:"max_payload"`
	MaxPending int64  `json:"max_pending"`
	Version    string `json:"version"` // of the NATS library
	Degraded   string `json:"degraded,omitempty"`
	Linked     bool   `json:"linked,omitempty"`
	// Of a member of a cluster:
	Cluster  string        `json:"cluster,omitempty"`
	Passing  string        `json:"passing,omitempty"`   // the present faults of the cluster
	Short    string        `json:"short,omitempty"`     // the shortage of its disk at present
	NoQuorum bool          `json:"no_quorum,omitempty"` // nothing can be stored at present
	Alone    time.Duration `json:"alone,omitempty"`     // time without most of the other members, in nanoseconds; 0: they are connected
}

// Present describes the present faults of a queue manager; "" for none.
func (a *About) Present() *string {
	text := strings.Trim(a.Passing+"; "+a.Short, "; ")
	return &text
}

const SyncAlways = "always"
