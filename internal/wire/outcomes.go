package wire

import (
	"bytes"
	"encoding/json"
	"strconv"

	"ferry/internal/transfer"
)

// An OUTCOMES message has hundreds of kilobytes, and is the only common message of that size. It is written and read
// here with the same result as by encoding/json, but without several passes over the same bytes.

// encodeOutcomes writes the message byte for byte as encoding/json would.
func encodeOutcomes(e envelope, o *Outcomes) ([]byte, error) {
	if o.Outcomes == nil || o.Program != nil {
		body, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		e.Body = body
		return json.Marshal(e)
	}

	e.Body = json.RawMessage("0") // the last field: the outcomes replace it before the last brace
	head, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}

	b := make([]byte, 0, len(head)+64+200*len(o.Outcomes))
	b = append(b, head[:len(head)-len("0}")]...)
	b = strconv.AppendUint(append(b, `{"batch":`...), o.Batch, 10)
	if b, err = transfer.AppendOutcomes(append(b, `,"outcomes":`...), o.Outcomes, true); err != nil {
		return nil, err
	}

	if o.Last {
		b = append(b, `,"last":true`...)
	}
	return append(b, "}}"...), nil
}

var (
	beforeOutcomes = []byte(`,"outcomes":[`)
	withoutAny     = []byte(`,"outcomes":[]`)
)

// decodeOutcomes decodes an OUTCOMES message in the form that encodeOutcomes writes. It returns nil for any other
// message, and for one with an unusual field; the general decoder reads those.
func decodeOutcomes(data []byte) *Message {
	at := bytes.Index(data, beforeOutcomes)
	if at < 0 || at > 512 || len(data) > MaxControl {
		return nil
	}

	from := at + len(beforeOutcomes) - 1
	outs, n, ok := transfer.ParseOutcomes(data[from:])
	if !ok || len(outs) == 0 || len(data)-from-n > 64 {
		return nil
	}

	rest := make([]byte, 0, 640)
	rest = append(append(append(rest, data[:at]...), withoutAny...), data[from+n:]...)
	m, err := decode(rest)
	if err != nil || m.Kind != KindOutcomes || len(m.Outcomes.Outcomes) > 0 {
		return nil
	}

	if again, err := m.Encode(); err != nil || !bytes.Equal(again, rest) {
		return nil // the text that was found is in another place of the message
	}

	m.Outcomes.Outcomes = outs
	if m.check() != nil {
		return nil // the general decoder reports the error
	}
	return m
}
