package audit

import (
	"bytes"
	"encoding/json"
	"slices"

	"ferry/internal/transfer"
)

// Records of items, and batches of them, are most of what there is, and large.
// What follows writes and reads them as encoding/json would, byte for byte, but
// leaves the items to package transfer and does not go over what is known to be
// JSON again.

// oneItem stands for a record's items, so that their place is found: quotes that
// are not escaped cannot be a part of any text.
var (
	oneItem     = []transfer.Outcome{{}}
	oneItemText = []byte(`"items":[{"item":0,"type":"","path":""}]`)
	itemsKey    = []byte(`"items":`)
)

// marshalItems is marshal of a record.
func marshalItems(r *Record) ([]byte, error) {
	if len(r.Items) == 0 {
		return marshal(r)
	}

	c := *r
	c.Items = oneItem
	head, err := marshal(&c)
	if err != nil {
		return nil, err
	}

	at := bytes.Index(head, oneItemText)
	if at < 0 {
		return marshal(r)
	}

	b := make([]byte, 0, len(head)+220*len(r.Items))
	b = append(append(b, head[:at]...), itemsKey...)
	if b, err = transfer.AppendOutcomes(b, r.Items, false); err != nil {
		return nil, err
	}
	return append(b, head[at+len(oneItemText):]...), nil
}

// unmarshalItems reads a record with items that is written as marshalItems writes
// it and has nothing unusual in it. It reports false for any other, which may be
// as good.
func unmarshalItems(b []byte) (r Record, ok bool) {
	at := bytes.Index(b, append(itemsKey[:len(itemsKey):len(itemsKey)], '['))
	if at < 0 || len(b) > MaxRecord {
		return Record{}, false
	}

	items, n, ok := transfer.ParseOutcomes(b[at+len(itemsKey):])
	if !ok || len(items) == 0 {
		return Record{}, false
	}

	rest := slices.Concat(b[:at], oneItemText, b[at+len(itemsKey)+n:])
	r, err := decodeAny(rest)
	if err != nil {
		return Record{}, false
	}

	if again, err := marshal(&r); err != nil || !bytes.Equal(again, rest) {
		return Record{}, false // something else has that name, or the spelling is another
	}

	r.Items = items
	return r, true
}

// noRecords stands for a batch's records, which are its last field.
var noRecords = []byte(`"records":[]}`)

// marshalBatch is marshal of a batch whose records are JSON on one line, as Encode
// has written them.
func marshalBatch(b *Batch) ([]byte, error) {
	c := *b
	c.Records = []json.RawMessage{}
	text, err := marshal(&c)
	if err != nil || len(b.Records) == 0 {
		return text, err
	}

	text = append(make([]byte, 0, len(text)+b.size), text[:len(text)-len("]}")]...)
	for n, r := range b.Records {
		if n > 0 {
			text = append(text, ',')
		}
		text = append(text, r...)
	}
	return append(text, "]}"...), nil
}

// unmarshalBatch reads a batch that is written as marshalBatch writes it; its
// records are cut out and not looked into. It reports false for any other.
func unmarshalBatch(text []byte) (b Batch, ok bool) {
	at := bytes.Index(text, noRecords[:len(noRecords)-len("]}")])
	if at < 0 || at > batchEnvelope || len(text) > MaxBatch {
		return Batch{}, false
	}

	from := at + len(noRecords) - len("]}")
	records, ok := cutRecords(text[from:])
	if !ok {
		return Batch{}, false
	}

	head := slices.Concat(text[:at], noRecords)
	if err := unmarshal(head, &b, "audit batch", batchEnvelope+len(noRecords), transfer.MaxJSONDepth); err != nil {
		return Batch{}, false
	}

	if again, err := marshal(&b); err != nil || !bytes.Equal(again, head) {
		return Batch{}, false
	}

	b.Records = records
	return b, true
}

// cutRecords cuts `{...},{...}]}` at its commas. Brackets outside strings are
// counted and nothing else is looked at: what is no JSON is found when the record
// is read.
func cutRecords(b []byte) (records []json.RawMessage, ok bool) {
	depth, from := 0, 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			end := endOfString(b[i+1:])
			if end < 0 {
				return nil, false
			}
			i += end + 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				if len(records) > maxBatchRecords {
					return nil, false
				}
				records = append(records, json.RawMessage(b[from:i+1:i+1]))
				if from = i + 2; from > len(b) || b[from-1] != ',' {
					return records, string(b[i+1:]) == "]}"
				}
				i++
				if from == len(b) || b[from] != '{' {
					return nil, false
				}
			}
			if depth < 0 {
				return nil, false
			}
		default:
			if depth == 0 {
				return nil, false
			}
		}
	}
	return nil, false
}

// endOfString is where the string ends that b goes on with; -1: nowhere.
func endOfString(b []byte) int {
	for from := 0; ; {
		q := bytes.IndexByte(b[from:], '"')
		if q < 0 {
			return -1
		}
		q += from
		slashes := 0
		for slashes < q && b[q-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return q
		}
		from = q + 1
	}
}
