package errands

import (
	"bytes"
	"strings"

	"ferry/internal/transfer"
)

// A message to be stored elsewhere begins with a line: a version, the subject, and the inbox for the receipt.
const remoteVersion = "1"

// maxRemoteLine bounds that line, in bytes.
const maxRemoteLine = 2 << 10

// RemoteMessage returns the message that has another queue manager store data on a subject. The receipt goes to inbox.
func RemoteMessage(subject, inbox string, data []byte) []byte {
	b := make([]byte, 0, len(remoteVersion)+len(subject)+len(inbox)+3+len(data))
	for _, s := range []string{remoteVersion, " ", subject, " ", inbox, "\n"} {
		b = append(b, s...)
	}
	return append(b, data...)
}

// ReadRemoteMessage returns the parts of such a message. Its errors are of KindMalformed and
// KindVersion.
func ReadRemoteMessage(message []byte) (subject, inbox string, data []byte, err error) {
	n := bytes.IndexByte(message[:min(len(message), maxRemoteLine)], '\n')
	if n < 0 {
		return "", "", nil, transfer.Errorf(transfer.KindMalformed, "a message that is to be stored does not say where")
	}
	line := strings.Split(string(message[:n]), " ")
	if len(line) != 3 || line[0] != remoteVersion {
		return "", "", nil, transfer.Errorf(transfer.KindVersion, "a message that is to be stored says in another way where")
	}
	return line[1], line[2], message[n+1:], nil
}
