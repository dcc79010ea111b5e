package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Limits of a request. An error about each has its figure.
const (
	MaxRequest   = 16 << 20 // bytes of its items in JSON
	MaxPart      = 32 << 10 // bytes of the items in one message
	MaxJSONDepth = 32
	MaxMeta      = 64   // entries
	MaxMetaValue = 1024 // bytes of one entry, key and value together
	MaxChunk     = 1 << 20
	MinChunk     = 4 << 10
	MinRate      = 1 << 10 // bytes a second
)

// Words of a request. The first of each list is the default.
const (
	ModeBinary = "binary"
	ModeText   = "text"

	DispositionLeave   = "leave"
	DispositionDelete  = "delete"  // the source is deleted after its arrival is recorded
	DispositionArchive = "archive" // the source is moved into a directory of the source agent after that

	IfExistsError     = "error"
	IfExistsOverwrite = "overwrite"
	IfExistsSkip      = "skip"   // the existing file stays, and the item does not fail
	IfExistsUpdate    = "update" // an older file is replaced; otherwise as skip
	IfExistsRename    = "rename" // the item takes a free name beside it: pay.csv becomes pay-1.csv
	IfExistsAppend    = "append" // the item's bytes are appended to the file

	DurabilityFull    = "full"
	DurabilityProcess = "process"

	LaneAuto   = "auto"
	LaneDirect = "direct"
	LaneQueue  = "queue"

	DeliveryFast   = "fast"
	DeliveryStored = "stored"

	CompressNone = "none"
	CompressFast = "fast" // little work for each byte
	CompressHigh = "high" // more work, fewer bytes
	CompressAuto = "auto" // as fast, where it is worth it
)

// An Originator is the user that asked for a transfer, as the submitter's host names it.
type Originator struct {
	User string `json:"user"`
	Host string `json:"host"`
}

func (o Originator) String() string { return o.User + "@" + o.Host }

// Principal returns the originator as the token of its connection.
func (o Originator) Principal() string { return UserToken(o.String()) }

// Hash distinguishes a request from another with the same ID. It is 32 hexadecimal digits.
func (q *Request) Hash() string {
	b, _ := json.Marshal(q)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// A Request asks for one managed transfer. The zero value of every optional field is its default. If the items of a
// request need more than MaxPart bytes, it is sent and stored as a head and parts; see Split.
type Request struct {
	Version     int               `json:"v"`
	ID          ID                `json:"id"`
	Submitted   time.Time         `json:"submitted"`
	Originator  Originator        `json:"originator"`
	Source      AgentName         `json:"source"`
	Destination AgentName         `json:"destination"`
	Items       []RequestItem     `json:"items,omitempty"`
	Rest        *Rest             `json:"rest,omitempty"` // of a head: the items in parts; nil: none
	Dest        Location          `json:"dest,omitzero"`  // of items without a DEST of their own
	Durability  string            `json:"durability,omitempty"`
	Lane        string            `json:"lane,omitempty"`
	Delivery    string            `json:"delivery,omitempty"`
	Compress    string            `json:"compress,omitempty"`
	Priority    int               `json:"priority,omitempty"` // 0 to 9, 9 first
	Job         string            `json:"job,omitempty"`
	Meta        map[string]string `json:"meta,omitempty"`
	Settings    Settings          `json:"settings,omitzero"`
	Recovery    Duration          `json:"recovery_timeout,omitempty"` // 0: a day; negative: for ever
	Triggers    []Trigger         `json:"triggers,omitempty"`         // conditions at the source; if one is not met, nothing is sent
	Programs    *Programs         `json:"programs,omitempty"`         // programs before and after the transfer
	Options                       // defaults of the items
	Scope
}

// A Scope selects files of the sources, and how they are sent.
type Scope struct {
	Terms

	// Tally is used in a job that deletes its sources after they have arrived at all destinations. TallyCount asks for
	// the sum of the arriving files (Counts.Tally). Any other value is the sum required for the deletion of sources.
	Tally string `json:"tally,omitempty"`

	Base  Path   `json:"base,omitempty"`  // the sources are names beneath this directory, no patterns, and keep their paths beneath it
	Retry *Retry `json:"retry,omitempty"` // nil: this request is no retry
}

// A Retry is the part of a request that refers to the transfer that it repeats.
type Retry struct {
	Of       ID          `json:"of"`
	Only     []Path      `json:"only,omitempty"`     // the files to send, by their source paths; none: all
	Resolved *Resolution `json:"resolved,omitempty"` // the resolved DEST of that transfer; nil: never resolved
}

// RequestVersion is the version of Request that this code writes.
const RequestVersion = 3

// DefaultRecovery is how long a transfer keeps trying before it fails with code 69.
const DefaultRecovery = 24 * time.Hour

// RecoveryTimeout returns the recovery time-out, or its default.
func (r *Request) RecoveryTimeout() time.Duration {
	if r.Recovery == 0 {
		return DefaultRecovery
	}
	return time.Duration(r.Recovery)
}

// Durable reports whether the item data is synced before an outcome is given. Deletion of a source requires that for
// any --durability. So does appending, which puts the existing content at risk as well.
func (r *Request) Durable() bool {
	return r.Durability != DurabilityProcess || r.Removes() || r.Appends()
}

// Stored reports whether the queue manager stores the data until the destination takes it.
func (r *Request) Stored() bool { return r.Delivery == DeliveryStored }
