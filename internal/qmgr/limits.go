package qmgr

import (
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/gate"
	"ferry/internal/qmgr/roles"
	"ferry/internal/wire"
)

// publish decides on a message of a client before its body is read (gate.Config.Publish). Queue managers may publish
// everything.
func (s *Server) publish(who gate.Caller, m gate.Message) (wait time.Duration, refused string) {
	if wire.TooLong(m.Subject) {
		return 0, gate.RefusedSubject
	}
	class, _ := wire.ClassOf(m.Subject)
	switch {
	case class == wire.ClassData && !m.Headers || who.Role == string(roles.Manager):
		return 0, ""
	case m.Headers: // a header tells the server to drop, expire or trace messages
		return 0, gate.RefusedHeaders
	case !class.Stored() || !mayPublish(who, m.Subject): // the server refuses the latter
		return 0, ""
	case m.Size > maxMsgSize:
		return 0, s.refuse(m, gate.RefusedSize, jetstream.ErrStreamMessageExceedsMaximum.APIError())
	}
	return 0, ""
}

// mayPublish reports whether the role of a client allows it to publish on a subject.
func mayPublish(who gate.Caller, subject string) bool {
	return roles.Covers(grants[roles.Role(who.Role)].For(who.Token).Publish, subject)
}

var grants = roles.Grants()

// refuse answers a message that is not stored, as the stream would. A message without a reply is refused by the server
// under the subject refused.
func (s *Server) refuse(m gate.Message, refused string, why *jetstream.APIError) string {
	if m.Reply == "" {
		return refused
	}
	answer, err := json.Marshal(struct {
		Error *jetstream.APIError `json:"error"`
	}{why})
	if err != nil || s.about.conn().Publish(m.Reply, answer) != nil {
		return refused
	}
	return gate.Answered
}
