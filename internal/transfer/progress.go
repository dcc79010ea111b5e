package transfer

import "time"

// A Progress is the present state of one transfer, as its source agent sees it. Users see it while the transfer runs,
// and coordination keeps it afterwards.
type Progress struct {
	ID          ID        `json:"id"`
	State       State     `json:"state"`
	Source      AgentName `json:"source"`
	Destination AgentName `json:"destination"`
	Request     string    `json:"request_hash,omitempty"` // hash of the request that the source accepted; see Request.Hash
	Originator  string    `json:"originator,omitempty"`   // as the submitter states
	Principal   string    `json:"principal,omitempty"`    // the submitter, as the queue manager's subject names it
	Job         string    `json:"job,omitempty"`
	Priority    int       `json:"priority,omitempty"`
	Submitted   time.Time `json:"submitted,omitzero"`
	Started     time.Time `json:"started,omitzero"`
	Ended       time.Time `json:"ended,omitzero"`

	Reason *Error `json:"reason,omitempty"` // reason of the wait or of the failure
	Queueing
	Related

	Counts
	Found
	Traffic
	Current    Path     `json:"current,omitempty"` // the source that is being sent; at the end of a transfer of one file, that file
	Lane       string   `json:"lane,omitempty"`
	LaneReason string   `json:"lane_reason,omitempty"`
	Settings   Settings `json:"settings,omitzero"`
	Promised
	Failures []Outcome `json:"failures,omitempty"`
	Code     int       `json:"result_code"` // once State is final
}

// Queueing describes the wait of a transfer.
type Queueing struct {
	Place   int       `json:"place,omitempty"` // position in the destination's queue
	NextTry time.Time `json:"next_try,omitzero"`
	GivesUp time.Time `json:"gives_up,omitzero"` // the end of the recovery time-out, while there is no progress
}

// Related has facts about a transfer that coordination takes from audit records.
type Related struct {
	RetryOf      ID     `json:"retry_of,omitzero"`       // the transfer that it repeats
	RetriedAs    ID     `json:"retried_as,omitzero"`     // the last transfer that repeats it
	Retried      bool   `json:"retried,omitempty"`       // that was not cancelled, or nothing was left to bring: the failure is not open
	RetriedFiles int64  `json:"retried_files,omitempty"` // failed files that repetitions have brought, as far as coordination has their names
	CancelledBy  string `json:"cancelled_by,omitempty"`  // the principal of the command

	Acknowledged *Acknowledgement `json:"acknowledged,omitempty"` // of its failure; nil: none
}

// An Acknowledgement says that a person has seen the failure of a transfer, and that it is left as it is.
type Acknowledgement struct {
	By     string    `json:"by"` // the principal
	Time   time.Time `json:"time"`
	Reason string    `json:"reason,omitempty"` // in the words of the person
}

// Found has the totals of a walk so far.
type Found struct {
	FilesTotal int64 `json:"files_total"`
	BytesTotal int64 `json:"bytes_total"`
	Walked     bool  `json:"walked"` // the walk is complete, and the totals are final
}

// Traffic has the figures of the data that a transfer has sent.
type Traffic struct {
	BytesSent   int64  `json:"bytes_sent"`
	BytesHeld   int64  `json:"bytes_held"`          // of this epoch, acknowledged by the destination, committed or not
	RunAhead    int64  `json:"run_ahead,omitempty"` // limit of in-flight bytes, measured or set
	Epoch       uint32 `json:"epoch,omitempty"`
	Resumes     int64  `json:"resumes"`
	BytesResent int64  `json:"bytes_resent"`
	BytesWire   int64  `json:"bytes_wire,omitempty"`       // of the chunk messages handed to the lane, including overhead
	Rate        int64  `json:"bytes_per_second,omitempty"` // of the last seconds of running, as coordination measures it
}

// Promised has the settings of the request that apply to all items.
type Promised struct {
	Compress   string `json:"compress,omitempty"` // the word of the request
	Durability string `json:"durability,omitempty"`
	Checksum   string `json:"checksum,omitempty"`
}

// MaxFailures is the most failed items that a transfer's record names. The audit log has all of them.
const MaxFailures = 100

// Summary returns the final report of a transfer in a final state or in Parked.
func (p *Progress) Summary() Summary {
	var secs float64
	if !p.Ended.IsZero() && !p.Started.IsZero() {
		secs = max(0, p.Ended.Sub(p.Started).Seconds())
	}
	return Summary{MessageType: "summary", ID: p.ID, State: p.State, ResultCode: p.Code,
		Files: p.Files, FilesFailed: p.FilesFailed, Directories: p.Dirs, Bytes: p.Bytes, Seconds: secs,
		Lane: p.Lane, Resumes: p.Resumes, BytesResent: p.BytesResent, BytesWire: p.BytesWire, Compress: p.Compress, FilesSkipped: p.FilesSkipped, FilesReplaced: p.FilesReplaced, FilesLeftOut: p.FilesLeftOut, LinksSkipped: p.LinksSkipped, TimesNotKept: p.TimesNotKept,
		Warnings: p.Warnings, Error: p.Reason, Failures: p.Failures}
}

// BytesSoFar returns the bytes that have arrived, or for a running transfer the bytes sent, where these are more.
func (p *Progress) BytesSoFar() int64 {
	if p.State.Final() {
		return p.Bytes
	}
	done := max(p.Bytes, p.BytesSent-p.BytesResent)
	if p.Walked && p.BytesTotal > 0 {
		done = min(done, p.BytesTotal)
	}
	return done
}
