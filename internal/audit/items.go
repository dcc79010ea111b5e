package audit

import (
	"bytes"
	"encoding/json"
	"slices"

	"ferry/internal/transfer"
)

// Records of items, and batches of them, are the largest and most common records. The code below writes and reads them
// byte for byte like encoding/json. It leaves the items to package transfer, and does not parse a second time text that
// is known to be JSON.

// oneItem stands for a record's items, to find their place: unescaped quotes cannot be part of any text.
var (
	oneItem     = []transfer.Outcome{{}}
	oneItemText = []byte(`"items":[{"item":0,"type":"","path":""}]`)
	itemsKey    = []byte(`"items":`)
)

// marshalItems is marshal for a record with items.
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

// unmarshalItems reads a record with items in the form of marshalItems, without unusual fields. ok is false for any
// other record, which may be valid.
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
		return Record{}, false // another field has that name, or the spelling differs
	}

	r.Items = items
	return r, true
}

// noRecords stands for a batch's records, which are its last field.
var noRecords = []byte(`"records":[]}`)

// marshalBatch is marshal for a batch with records as Encode writes them: JSON on one line.
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

// unmarshalBatch reads a batch in the form of marshalBatch. It splits the records and does not parse them. ok is false
// for any other batch.
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

// cutRecords splits `{...},{...}]}` at its commas. It only counts brackets outside strings. Invalid JSON is found when
// the record is read.
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

// endOfString returns the end of the string at the beginning of b, or -1 if it does not end.
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
