package audit

import (
	"bytes"
	"encoding/json"

	"ferry/internal/transfer"
)

const (
	// MaxBatch bounds the JSON of a batch in bytes.
	MaxBatch = 1 << 20
	// batchEnvelope bounds the bytes of a batch around its one record.
	batchEnvelope = 1 << 10
	// batchDepth is the nesting depth that a batch adds to a record.
	batchDepth = 2
	// maxBatchRecords bounds the number of records of a batch.
	maxBatchRecords = 8192
)

// A Batch has consecutive records of an agent's outbox, on their way to coordination. The agent repeats it until a
// Receipt covers it. It may arrive twice, late or out of order. A Batch without records asks for a Receipt.
type Batch struct {
	V           int                `json:"v"`
	Agent       transfer.AgentName `json:"agent"`
	Incarnation string             `json:"incarnation"`
	// Floor bounds the dropped records: the agent has dropped all records below it, after a receipt for each. It is 1
	// until the first receipt.
	Floor uint64 `json:"floor"`
	// Reply is the inbox for the Receipt. The Receipt goes nowhere else.
	Reply string `json:"reply,omitempty"`
	// Key and Seal are set if the agent signs its batches. Key is the ID of the key's binding, Seal the signature.
	// Package witness defines the signed bytes.
	Key     string            `json:"key,omitempty"`
	Seal    []byte            `json:"seal,omitempty"`
	Records []json.RawMessage `json:"records"`

	// Added, if not nil, gets the records that the log has appended because of the batch: new records of the batch, and
	// records of the log about the batch. They are durable.
	Added func([]*Record) `json:"-"`

	size int // bytes of the records and their commas, as counted by Add
}

// A Receipt answers a Batch. It names the records of the batch's ledger that are durable in the log.
type Receipt struct {
	V           int                `json:"v"`
	Agent       transfer.AgentName `json:"agent"`
	Incarnation string             `json:"incarnation"`
	// Have is a number. The log has every record from the batch's floor to this number. It is at most the batch's last
	// record. It is below the floor if there are none.
	Have  uint64 `json:"have"`
	Index int64  `json:"index"` // index of the last record of that incarnation in the log; -1: none
	// Last is the greatest number of that incarnation in the log, from any batch.
	Last uint64 `json:"last,omitempty"`
	// Refused is the reason why the batch was refused, if the agent can resolve it.
	Refused string `json:"refused,omitempty"`
}

// Add appends one encoded record to the batch, or returns false if the batch is full. An empty batch takes any record
// of Encode.
func (b *Batch) Add(record []byte) bool {
	if b.size+len(record)+1 > MaxBatch-batchEnvelope && len(b.Records) > 0 {
		return false
	}
	b.Records = append(b.Records, record)
	b.size += len(record) + 1
	return true
}

// Size returns the bytes of the records that Add has taken.
func (b *Batch) Size() int { return b.size }

// EncodeBatch writes a batch as one line of JSON.
func EncodeBatch(b *Batch) ([]byte, error) {
	c := *b
	c.V, c.Floor = RecordVersion, max(b.Floor, 1)
	text, err := marshalBatch(&c)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindInternal, "audit batch of %s: %w", c.Agent, err)
	}
	if len(text) > MaxBatch {
		return nil, transfer.Errorf(transfer.KindTooLarge, "audit batch of %s has %d bytes; the limit is %d", c.Agent, len(text), MaxBatch)
	}
	return text, nil
}

// DecodeBatch reads a batch. Its records are checked when they are appended.
func DecodeBatch(text []byte) (Batch, error) {
	b, ok := unmarshalBatch(text)
	if !ok {
		if err := unmarshal(text, &b, "audit batch", MaxBatch, transfer.MaxJSONDepth+batchDepth); err != nil {
			return Batch{}, err
		}
	}
	if err := checkVersion("audit batch", b.V); err != nil {
		return Batch{}, err
	}

	if _, err := b.stream(); err != nil {
		return Batch{}, err
	}
	return b, b.checkNumbers()
}

// checkNumbers checks the ranges of the batch's numbers.
func (b *Batch) checkNumbers() error {
	switch {
	case b.Floor == 0 || b.Floor > MaxNumber:
		return transfer.Errorf(transfer.KindUsage, "an audit batch of %s has the floor %d; numbers are 1 to 2^48", b.Agent, b.Floor)
	case len(b.Records) > maxBatchRecords:
		return transfer.Errorf(transfer.KindTooLarge, "an audit batch of %s has %d records; the limit is %d", b.Agent, len(b.Records), maxBatchRecords)
	}
	return nil
}

// stream checks the names in the batch, and returns the key of its numbering.
func (b *Batch) stream() (stream, error) {
	if err := checkAgent(b.Agent); err != nil {
		return stream{}, err
	}
	if b.Agent == Coordination {
		return stream{}, transfer.Errorf(transfer.KindUsage, "an audit batch comes under the name %s, which is coordination's own", Coordination)
	}
	v, err := ParseIncarnation(b.Incarnation)
	return stream{b.Agent, v}, err
}

// An entry is a record of a batch, as JSON and decoded.
type entry struct {
	body []byte
	rec  Record
}

// entries decodes and checks the batch's records. Each must have the batch's agent and incarnation. The numbers must
// ascend by one from the floor or above.
func (b *Batch) entries(key stream) ([]entry, error) {
	if err := b.checkNumbers(); err != nil {
		return nil, err
	}

	list := make([]entry, 0, len(b.Records))
	size := 0
	for i, raw := range b.Records {
		rec, ours, err := decode(raw)
		if err != nil {
			return nil, err
		}
		switch {
		case rec.stream() != key:
			return nil, transfer.Errorf(transfer.KindUsage, "audit record %s came in a batch of %s/%s", rec.name(), b.Agent, b.Incarnation)
		case rec.N < b.Floor:
			return nil, transfer.Errorf(transfer.KindUsage, "audit record %s came in a batch with the floor %d", rec.name(), b.Floor)
		case i > 0 && rec.N != list[i-1].rec.N+1:
			return nil, transfer.Errorf(transfer.KindUsage, "audit record %s follows number %d in its batch", rec.name(), list[i-1].rec.N)
		}
		body := []byte(raw)
		if !ours {
			if body, err = removeSpace(raw); err != nil {
				return nil, err
			}
		}
		if size += len(body); size > MaxBatch {
			return nil, transfer.Errorf(transfer.KindTooLarge, "an audit batch of %s has more than %d bytes", b.Agent, MaxBatch)
		}
		list = append(list, entry{body, rec})
	}
	return list, nil
}

// removeSpace removes space between the tokens, which Encode never writes. So the log prints as one record a line.
func removeSpace(raw []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "audit record is malformed: %w", err)
	}
	return b.Bytes(), nil
}

// EncodeReceipt writes a receipt as one line of JSON.
func EncodeReceipt(r Receipt) ([]byte, error) {
	r.V = RecordVersion
	return marshal(r)
}

// DecodeReceipt reads a receipt.
func DecodeReceipt(text []byte) (Receipt, error) {
	var r Receipt
	if err := unmarshal(text, &r, "audit receipt", batchEnvelope, transfer.MaxJSONDepth); err != nil {
		return Receipt{}, err
	}
	if err := checkVersion("audit receipt", r.V); err != nil {
		return Receipt{}, err
	}
	if err := checkAgent(r.Agent); err != nil {
		return Receipt{}, err
	}

	if _, err := ParseIncarnation(r.Incarnation); err != nil {
		return Receipt{}, err
	}

	if len(r.Refused) > batchEnvelope/2 {
		return Receipt{}, transfer.Errorf(transfer.KindUsage, "an audit receipt for %s has a reason that is too long", r.Agent)
	}

	if r.Have > MaxNumber || r.Last > MaxNumber || r.Index < -1 || r.Index > MaxNumber {
		return Receipt{}, transfer.Errorf(transfer.KindUsage, "an audit receipt for %s has numbers out of range", r.Agent)
	}
	return r, nil
}
