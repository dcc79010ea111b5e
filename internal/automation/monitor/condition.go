package monitor

import (
	"strconv"
	"strings"

	"ferry/internal/transfer"
)

// A Condition decides when a matching file triggers.
type Condition struct {
	Kind  string
	Value int64 // bytes of ConditionSize, polls of ConditionUnchanged
}

// Kinds of condition.
const (
	ConditionMatch     = "match"     // the file exists
	ConditionNoMatch   = "nomatch"   // no such file exists
	ConditionSize      = "size"      // it has Value bytes or more
	ConditionUnchanged = "unchanged" // the file was the same at Value consecutive polls
	ConditionNotEmpty  = "notempty"  // of a queue: it has messages
	ConditionGroup     = "group"     // of a queue: it has a complete group
)

// ParseCondition parses match, nomatch, size>=N and unchanged=N, the conditions of directories, and notempty and group,
// those of queues. For an empty text, Check chooses the condition.
func ParseCondition(s string) (Condition, error) {
	bad := transfer.Errorf(transfer.KindUsage, "condition %.60q is unknown; it is one of match, nomatch, size>=N and unchanged=N, where N is a size as 10M, or a number of polls; of a queue it is notempty or group", s)
	switch s {
	case "", ConditionMatch, ConditionNoMatch, ConditionNotEmpty, ConditionGroup:
		return Condition{Kind: s}, nil
	}
	if size, ok := strings.CutPrefix(s, "size>="); ok {
		n, err := transfer.ParseSize(size)
		if err != nil {
			return Condition{}, err
		}
		return Condition{ConditionSize, int64(n)}, nil
	}
	polls, ok := strings.CutPrefix(s, "unchanged=")
	n, err := strconv.Atoi(polls)
	if !ok || err != nil {
		return Condition{}, bad
	}
	if n < 1 || n > maxUnchanged {
		return Condition{}, transfer.Errorf(transfer.KindUsage, "condition unchanged=%d is out of range; it goes from 1 to %d polls", n, maxUnchanged)
	}
	return Condition{ConditionUnchanged, int64(n)}, nil
}

func (c Condition) String() string {
	switch c.Kind {
	case ConditionSize:
		return "size>=" + strconv.FormatInt(c.Value, 10)
	case ConditionUnchanged:
		return "unchanged=" + strconv.FormatInt(c.Value, 10)
	}
	return c.Kind
}

// MarshalText returns the text that ParseCondition parses.
func (c Condition) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText is ParseCondition.
func (c *Condition) UnmarshalText(b []byte) (err error) {
	*c, err = ParseCondition(string(b))
	return err
}
