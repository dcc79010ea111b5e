package monitor

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"ferry/internal/automation/duty"
	"ferry/internal/content/digest"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The drawer of the monitors:
//
//	d/NAME        record, in JSON
//	s/NAME        status, in JSON
//	h/NAME/FILE   entry: the history of a file; FILE is its path with NUL in place of each '/', so
//	              that keys have the order of place.Scanner.Scan
//	t/NAME/N      pending, in JSON: a trigger that is to be submitted; N counts triggers
//	l/NAME/N      Logged, in JSON: the last maxLogged triggers, for display
//	x/ID          followed, in JSON: the monitor of a transfer that has not ended, and where its files lie
//	n             the last generation of a record, 8 bytes
const drawerName = "monitor"

const (
	maxLogged = 1000
)

// A drawer has the monitors, each under its name.
type drawer = duty.Store[*record]

func drawerOf(t *ledger.Tx) drawer {
	return drawer{Namespace: ledger.NamespaceOf(t, drawerName), Prefix: "d/", Decode: decode[record]}
}

func statusKey(name string) string            { return "s/" + name }
func historyPrefix(name string) string        { return "h/" + name + "/" }
func pendingPrefix(name string) string        { return "t/" + name + "/" }
func logPrefix(name string) string            { return "l/" + name + "/" }
func followedKey(id transfer.ID) string       { return "x/" + id.String() }
func numbered(prefix string, n uint64) string { return prefix + fmt.Sprintf("%016x", n) }

// fileKey returns the part of a key that names a file.
func fileKey(rel transfer.Path) string { return strings.ReplaceAll(string(rel), "/", "\x00") }

// A record is a monitor in the ledger.
type record struct {
	Definition
	word.Origin                     // of the command that made it: the monitor submits in its name
	Originator  transfer.Originator `json:"originator"`
	Created     time.Time           `json:"created"`
	Changed     time.Time           `json:"changed"`
	Paused      bool                `json:"paused,omitempty"`
	// Generation differs after each change, and after the monitor was removed and made again. The results of a poll for
	// an earlier generation are not recorded.
	Generation uint64 `json:"generation"`
}

// Owner returns the principal that the monitor submits for.
func (r *record) Owner() string { return r.Principal }

// Key returns the name of the monitor.
func (r *record) Key() string { return r.Name }

func decode[T any](key string, data []byte) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(data, v); err != nil {
		return nil, transfer.Errorf(transfer.KindInternal, "%q in the ledger of the monitors cannot be read: %w", key, err)
	}
	return v, nil
}

// A Status has the counts of a monitor.
type Status struct {
	Triggers  uint64    `json:"triggers"`  // in all; also the number of the last one
	Files     uint64    `json:"files"`     // of all triggers
	Submitted uint64    `json:"submitted"` // transfers that were accepted
	Refused   uint64    `json:"refused"`   // triggers that were refused for good
	Last      time.Time `json:"last,omitzero"`
	// Transfer is the transfer of the last trigger that was not refused when it was recorded.
	Transfer transfer.ID `json:"last_transfer,omitzero"`
	// Fired means that the condition nomatch has triggered since a file last existed.
	Fired bool `json:"fired,omitempty"`
}

// A pending trigger is recorded, and it is not yet known whether its transfer was accepted.
type pending struct {
	N uint64 `json:"n"`
	word.Origin
	Request transfer.Request `json:"request"`
}

// A Logged trigger is one of a monitor's last triggers.
type Logged struct {
	N        uint64          `json:"n"`
	Time     time.Time       `json:"time"`
	Transfer transfer.ID     `json:"transfer,omitzero"`
	State    string          `json:"state"`
	File     transfer.Path   `json:"file,omitempty"` // the first one
	Files    int             `json:"files"`
	Error    *transfer.Error `json:"error,omitempty"` // why it was refused
}

// States of a Logged trigger.
const (
	StateRecorded  = "recorded"  // not submitted yet
	StateSubmitted = "submitted" // the agent has its transfer
	StateRefused   = "refused"   // it was not accepted, or could not be submitted, and is not tried again
)

// An identity distinguishes the states of a file. It omits the device: its number changes when a share is mounted
// again, although the file stays the same.
type identity struct {
	inode              uint64
	size, mtime, ctime int64
}

func identityOf(f *place.Found) identity { return identity{f.Inode, f.Size, f.Mtime, f.Ctime} }

// differsInCtime reports whether only the time of change differs.
func (i identity) differsInCtime(j identity) bool {
	same := i
	same.ctime = j.ctime
	return same == j && i != j
}

// An entry is the history of one file that has triggered.
type entry struct {
	identity
	gone     int64 // since when it is missing, in seconds since 1970; 0: it exists
	transfer transfer.ID
	after    uint64 // of messages: the number before them
	tries    int    // number of earlier transfers of this state that have ended without it
	again    bool   // its transfer did not find this state: the file triggers
	sum      string // packed digest of the content that has arrived; empty: none, or unknown
}

// entryFormat is the first byte of an entry:
//
//	1 format  8 mtime  16 transfer  varints: inode, size, ctime less mtime, gone, after, tries  1 again  sum
const entryFormat = 3

// sumMethods has the methods of digests, by their bytes.
var sumMethods = []digest.Method{"", digest.XXH3, digest.MD5, digest.SHA256}

func (e *entry) encode() []byte {
	b := append(make([]byte, 0, 72), entryFormat)
	b = binary.BigEndian.AppendUint64(b, uint64(e.mtime))
	b = append(b, e.transfer[:]...)
	b = binary.AppendUvarint(b, e.inode)
	b = binary.AppendVarint(b, e.size)
	b = binary.AppendVarint(b, e.ctime-e.mtime)
	b = binary.AppendVarint(b, e.gone)
	b = binary.AppendUvarint(b, e.after)
	b = binary.AppendUvarint(b, uint64(e.tries))
	b = append(b, 0)
	if e.again {
		b[len(b)-1] = 1
	}
	return append(b, e.sum...)
}

// packed returns a digest in the form of an entry: one byte for the method, then the digest in binary. For a text that
// is no digest, it returns nothing.
func packed(sum string) string {
	method, digits, _ := strings.Cut(sum, ":")
	raw, err := hex.DecodeString(digits)
	n := slices.Index(sumMethods, digest.Method(method))
	if n < 1 || err != nil || len(raw) == 0 {
		return ""
	}
	return string(byte(n)) + string(raw)
}

// decodeEntry parses an entry. The error for a damaged entry has the kind Internal.
func decodeEntry(b []byte) (e entry, err error) {
	if len(b) < 25 || b[0] != entryFormat {
		return e, transfer.Errorf(transfer.KindInternal, "an entry in the history of a monitor is in a format that this version of Ferry does not know")
	}
	e.mtime = int64(binary.BigEndian.Uint64(b[1:]))
	copy(e.transfer[:], b[9:25])
	b = b[25:]
	ok := true
	next := func(n int) {
		if n <= 0 {
			ok, n = false, 0
		}
		b = b[n:]
	}
	var n int
	e.inode, n = binary.Uvarint(b)
	next(n)
	e.size, n = binary.Varint(b)
	next(n)
	changed, n := binary.Varint(b)
	e.ctime = e.mtime + changed
	next(n)
	e.gone, n = binary.Varint(b)
	next(n)
	e.after, n = binary.Uvarint(b)
	next(n)
	tries, n := binary.Uvarint(b)
	next(n)
	e.tries = int(min(tries, maxRetries+1))
	if ok = ok && len(b) > 0 && b[0] <= 1; ok {
		e.again, b = b[0] == 1, b[1:]
	}
	e.sum = string(b)
	if !ok || e.sum != "" && (e.sum[0] == 0 || int(e.sum[0]) >= len(sumMethods)) {
		return entry{}, transfer.Errorf(transfer.KindInternal, "an entry in the history of a monitor is damaged")
	}
	return e, nil
}

// load reads JSON from the drawer. ok is false if the key does not exist.
func load[T any](d drawer, key string) (v T, ok bool, err error) {
	data := d.Get(key)
	if data == nil {
		return v, false, nil
	}
	found, err := decode[T](key, data)
	if err != nil {
		return v, false, err
	}
	return *found, true, nil
}

func save(d drawer, key string, v any) error { return d.Put(key, wire.Marshal(v)) }

// nextGeneration returns a new number for a change of any monitor.
func nextGeneration(d drawer) (uint64, error) {
	var n uint64
	if b := d.Get("n"); len(b) == 8 {
		n = binary.BigEndian.Uint64(b)
	}
	return n + 1, d.Put("n", binary.BigEndian.AppendUint64(nil, n+1))
}
