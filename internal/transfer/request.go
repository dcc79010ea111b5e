package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

// Settings are the flow-control settings of a transfer; 0 means the agent's.
type Settings struct {
	ChunkSize          int `json:"chunk_size,omitempty"`          // bytes of one data message, MinChunk to MaxChunk
	WindowSize         int `json:"window_size,omitempty"`         // chunks to one acknowledgement, 1 to 10,000
	FrameSize          int `json:"frame_size,omitempty"`          // windows of run-ahead, 1 to 1,000
	CheckpointInterval int `json:"checkpoint_interval,omitempty"` // frames to one checkpoint, 1 to 1,000
	// Auto, in the settings of a transfer, says that its run-ahead was not set explicitly. The destination may let it
	// grow beyond the settings.
	Auto bool `json:"auto,omitempty"`
}

// DefaultSettings returns MQ MFT's defaults.
func DefaultSettings() Settings {
	return Settings{ChunkSize: 256 << 10, WindowSize: 10, FrameSize: 5, CheckpointInterval: 1}
}

// Or returns s with unset settings taken from d.
func (s Settings) Or(d Settings) Settings {
	or := func(a, b int) int {
		if a != 0 {
			return a
		}
		return b
	}
	return Settings{or(s.ChunkSize, d.ChunkSize), or(s.WindowSize, d.WindowSize),
		or(s.FrameSize, d.FrameSize), or(s.CheckpointInterval, d.CheckpointInterval), s.Auto}
}

// Hash distinguishes a request from another with the same ID. It is 32 hexadecimal digits.
func (q *Request) Hash() string {
	b, _ := json.Marshal(q)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// Check refuses a setting out of range. 0 means unset and passes.
func (s Settings) Check() error {
	for _, c := range []struct {
		name       string
		v, min, mx int
	}{
		{"chunk size", s.ChunkSize, MinChunk, MaxChunk},
		{"window size", s.WindowSize, 1, 10000},
		{"frame size", s.FrameSize, 1, 1000},
		{"checkpoint interval", s.CheckpointInterval, 1, 1000},
	} {
		if c.v != 0 && (c.v < c.min || c.v > c.mx) {
			return Errorf(KindUsage, "%s %d is out of range; it goes from %d to %d", c.name, c.v, c.min, c.mx)
		}
	}
	return nil
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

// Check refuses a request that is malformed, over a limit, or needs a function that this version lacks.
func (r *Request) Check() error {
	if r.Version < RequestVersion || r.Version > RequestVersion+1 {
		return Errorf(KindVersion, "request version %d is not spoken here; this is version %d", r.Version, RequestVersion)
	}

	if r.ID.IsZero() {
		return Errorf(KindUsage, "the request has no transfer ID")
	}

	for _, a := range []AgentName{r.Source, r.Destination} {
		if _, err := ParseAgentName(string(a)); err != nil {
			return err
		}
	}
	if err := r.checkItems(); err != nil {
		return err
	}
	if err := r.Scope.check(); err != nil {
		return err
	}
	if err := r.checkWords(); err != nil {
		return err
	}
	if err := r.Options.check(); err != nil {
		return err
	}
	if err := r.checkStored(); err != nil {
		return err
	}
	if r.Links == LinksFollow && r.Removes() {
		return Errorf(KindUsage, "--links follow does not go with --delete-source or --archive: deleting a link does not delete its file").
			WithHint("name the files themselves, or leave the sources where they are")
	}
	if err := r.checkTogether(); err != nil {
		return err
	}
	if err := r.checkPrograms(); err != nil {
		return err
	}
	return r.checkNumbers()
}

func (s *Scope) check() error {
	if err := s.Terms.check(); err != nil {
		return err
	}

	if err := checkTally(s.Tally); err != nil {
		return err
	}

	if s.Base != "" {
		if err := s.Base.Check(); err != nil {
			return err
		}
	}

	if s.Retry == nil {
		return nil
	}

	if s.Retry.Of.IsZero() {
		return Errorf(KindUsage, "a retry does not name its transfer")
	}

	paths := s.Retry.Only
	if to := s.Retry.Resolved; to != nil {
		paths = append(slices.Clip(paths), to.Base)
	}

	for _, p := range paths {
		if err := p.Check(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Request) checkWords() error {
	return checkWords([]word{
		{"durability", r.Durability, []string{DurabilityFull, DurabilityProcess}, nil},
		{"lane", r.Lane, []string{LaneAuto, LaneQueue, LaneDirect}, nil},
		{"delivery", r.Delivery, []string{DeliveryFast, DeliveryStored}, nil},
		{"compress", r.Compress, []string{CompressNone, CompressFast, CompressHigh, CompressAuto}, nil},
	})
}

// Stored reports whether the queue manager stores the data until the destination takes it.
func (r *Request) Stored() bool { return r.Delivery == DeliveryStored }

// checkStored refuses options that stored delivery does not support.
func (r *Request) checkStored() error {
	switch {
	case !r.Stored():
		return nil
	case r.Lane == LaneDirect:
		return Errorf(KindUsage, "--lane direct goes past the queue manager, and --delivery stored is by way of it").
			WithHint("leave one of them out")
	case slices.ContainsFunc(r.Items, func(it RequestItem) bool { return it.Own() }):
		return Errorf(KindUsage, "--delivery stored sends everything to one DEST with the same options").
			WithHint("send the items that have a DEST or options of their own by themselves")
	}
	return nil
}

// A word is the value of an option with a few possible words.
type word struct {
	name, value string
	built, all  []string
}

func checkWords(words []word) error {
	for _, w := range words {
		if err := checkWord(w.name, w.value, w.built, w.all); err != nil {
			return err
		}
	}
	return nil
}

func checkWord(name, value string, built, later []string) error {
	if value == "" {
		return nil
	}

	for _, v := range built {
		if v == value {
			return nil
		}
	}

	for _, v := range later {
		if v == value {
			return Errorf(KindNotBuilt, "--%s %s is not built yet; use %s", name, value, strings.Join(built, " or "))
		}
	}
	return Errorf(KindUsage, "--%s %q is unknown; it is one of %s", name, value, strings.Join(append(built, later...), ", "))
}

func (r *Request) checkNumbers() error {
	if r.Priority < 0 || r.Priority > 9 {
		return Errorf(KindUsage, "priority %d is out of range; it goes from 0 to 9", r.Priority)
	}

	if err := CheckLabels(r.Job, r.Meta); err != nil {
		return err
	}
	return r.Settings.Check()
}

// CheckLabels refuses a job name or metadata that cannot be stored.
func CheckLabels(job string, meta map[string]string) error {
	if len(meta) > MaxMeta {
		return Errorf(KindTooLarge, "the request has %d metadata entries; the limit is %d", len(meta), MaxMeta)
	}

	for k, v := range meta {
		if k == "" {
			return Errorf(KindUsage, "a metadata entry has no name")
		}
		if strings.ContainsRune(k+v, 0) {
			return Errorf(KindUsage, "metadata %.40q has a NUL", k)
		}
		if len(k)+len(v) > MaxMetaValue {
			return Errorf(KindTooLarge, "metadata %.40q has %d bytes; the limit is %d", k, len(k)+len(v), MaxMetaValue)
		}
	}

	if strings.ContainsRune(job, 0) {
		return Errorf(KindUsage, "the job name has a NUL")
	}

	if len(job) > MaxMetaValue {
		return Errorf(KindTooLarge, "the job name has %d bytes; the limit is %d", len(job), MaxMetaValue)
	}
	return nil
}

// A Duration is a time.Duration that is written in JSON in Go's form ("3s").
type Duration time.Duration

// ParseDuration reads Go's form. -1 means for ever.
func ParseDuration(s string) (Duration, error) {
	if s == "-1" {
		return -1, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, Errorf(KindUsage, "duration %q is malformed; write it as 90s, 15m or 24h, or -1 for ever", s)
	}
	return Duration(d), nil
}

func (d Duration) String() string {
	if d < 0 {
		return "-1"
	}
	return time.Duration(d).String()
}

// MarshalText writes Go's form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads Go's form. -1 means for ever.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := ParseDuration(string(b))
	*d = v
	return err
}

// ParseSize reads bytes with an optional binary unit: 65536, 64K, 64KiB, 1M.
func ParseSize(s string) (int, error) {
	bad := Errorf(KindUsage, "size %q is malformed; write it as 65536, 64K or 1M", s)
	t := strings.ToUpper(strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(s), "IB"), "B"))
	shift := 0
	for unit, sh := range map[string]int{"K": 10, "M": 20, "G": 30} {
		if strings.HasSuffix(t, unit) {
			t, shift = strings.TrimSuffix(t, unit), sh
			break
		}
	}

	n, err := strconv.ParseUint(t, 10, 32)
	if err != nil || n<<shift > 1<<40 {
		return 0, bad
	}
	return int(n << shift), nil
}

// FormatBytes formats a number of bytes for users, in binary units.
func FormatBytes(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, u := float64(n)/1024, 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[u])
}
