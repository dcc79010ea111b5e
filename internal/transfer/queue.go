package transfer

import "strings"

// A QueueName names an application queue. Files become messages of such a queue, and its messages become files. Like an
// AgentName it is in capitals after it is read.
type QueueName string

// ParseQueueName checks a name: 1 to 48 characters, letters, digits and "_ . % -", the first a
// letter or digit. The result is in capitals.
func ParseQueueName(s string) (QueueName, error) {
	if !IsName(s, 48, "_.%-") {
		return "", Errorf(KindUsage, "queue name %q is not valid: 1 to 48 letters, digits or _ . %% -, beginning with a letter or digit", s)
	}
	return QueueName(strings.ToUpper(s)), nil
}

// UnmarshalText reads a name like ParseQueueName. An empty text is the empty name.
func (q *QueueName) UnmarshalText(b []byte) (err error) {
	*q = ""
	if len(b) > 0 {
		*q, err = ParseQueueName(string(b))
	}
	return err
}

// Token returns the name as one token of a subject.
func (q QueueName) Token() string { return Token(string(q)) }

// CheckGroup refuses a text that is no ID of a group of messages: 1 to 80 letters, digits or "_ -", not beginning with
// "-".
func CheckGroup(id string) error {
	if !IsWord(id, 80, "_-") || id[0] == '-' {
		return Errorf(KindUsage, "the group %q of messages is not valid: 1 to 80 letters, digits or _ -, not beginning with -", id)
	}
	return nil
}
