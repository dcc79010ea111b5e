package xml

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"ferry/internal/transfer"
)

// idBegin begins the 48 digits that MQ MFT's programs use for an ID: "FERRY" and three blanks, in place of "AMQ" and
// the name of a queue manager. The ID follows.
var idBegin = hex.EncodeToString([]byte("FERRY   "))

// FormatID writes an ID in 48 digits of hex.
func FormatID(id transfer.ID) string { return idBegin + hex.EncodeToString(id[:]) }

// ParseID parses the result of FormatID, and an ID in Ferry's own form.
func ParseID(s string) (transfer.ID, error) {
	low := strings.ToLower(s)
	if len(low) != 48 {
		return transfer.ParseID(low)
	}
	h, ok := strings.CutPrefix(low, idBegin)
	if !ok {
		return transfer.ID{}, transfer.Errorf(transfer.KindUsage, "transfer ID %s is not one of Ferry's, which begin with %s", s, idBegin)
	}
	return transfer.ParseID(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:])
}

// IDOf returns the ID for the transfer of a stored document without an ID. It is the same for each delivery of one
// message, and differs between messages, even with equal bytes.
func IDOf(data []byte, principal string, stored time.Time) transfer.ID {
	h := sha256.New()
	h.Write([]byte(principal + "\n" + strconv.FormatInt(stored.UnixNano(), 10) + "\n"))
	h.Write(data)
	var id transfer.ID
	copy(id[:], h.Sum(nil))
	begin := transfer.NewID(stored)
	copy(id[:6], begin[:6])
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id
}
