package xml

import (
	"strings"

	"ferry/internal/mft/xml/tree"
	placequeue "ferry/internal/place/queue"
)

// queue reads the queue of a source or a destination; nil if there is none.
func (r *documentReader) queue(e *tree.Element) *Queue {
	at := r.Sub(e, "queue")
	if at == nil {
		return nil
	}
	q := &Queue{Attributes: map[string]string{}}
	for _, name := range queueWords {
		v := r.Attr(at, name)
		if name == "delimiter" {
			v = r.Raw(at, name)
		}
		if v != "" {
			q.Attributes[name] = v
		}
	}
	if v := r.Ours(at, "delimiter-at"); v != "" {
		q.Attributes[delimiterAt] = v
	}
	r.queueValues(at, e.Name == "source")
	replace := r.Raw(at, "ferry:replace") // of a destination, which has it
	if e.Name == "source" && replace != "" {
		r.Bad(at, "replace of <queue> has no meaning in a <source>")
	}
	q.Name = tree.Blank(r.Text(at))
	if _, manager, is := strings.Cut(q.Name, "@"); is {
		r.doc.ignore("@" + manager + " of <queue>: queues are those of the agent's own queue manager")
	}
	for _, name := range []string{"setMqProps", "unrecognisedCodePage"} {
		if v := q.Attributes[name]; v != "" && !strings.EqualFold(v, "false") {
			r.doc.ignore(name + " of <queue>")
		}
	}
	if strings.EqualFold(q.Attributes["persistent"], "false") {
		r.doc.ignore("persistent of <queue>: messages are kept on disk")
	}
	return q
}

// queueValues refuses unknown values, and values that belong to the other end.
func (r *documentReader) queueValues(at *tree.Element, source bool) {
	r.Word(at, "persistent", "", "true", "false", "qdef")
	r.Word(at, "EOL", "", "lf", "crlf", "nl")
	r.Word(at, "unrecognisedCodePage", "", "fail", "binary")
	r.Word(at, "delimiterPosition", "", "prefix", "postfix")
	r.Truth(at, "setMqProps", false)
	r.Truth(at, "includeDelimiterInFile", true)
	types := []string{"", delimiterBinary, delimiterText}
	if !source {
		types = []string{"", delimiterBinary, delimiterSize, delimiterPattern}
	}
	kind := r.Word(at, "delimiterType", types...)
	if (kind == "") != (r.Raw(at, "delimiter") == "") {
		r.Bad(at, "<queue> has one of delimiter and delimiterType; both are needed")
	}
	groups := r.Truth(at, "useGroups", false)
	waits, keeps := r.Number(at, "waitTime", 0, 0, 1<<31-1), r.Truth(at, "includeDelimiterInMessage", false)
	id, place := r.Attr(at, "groupId"), r.Ours(at, "delimiter-at")
	for name, wrong := range map[string]bool{"includeDelimiterInMessage": source && keeps, "useGroups": !source && groups, "groupId": !source && id != "",
		"waitTime": !source && waits > 0, delimiterAt: !source && place != ""} {
		if wrong {
			r.Bad(at, "%s of <queue> has no meaning in a <%s>", name, map[bool]string{true: "source", false: "destination"}[source])
		}
	}
	switch {
	case source && id != "" && !groups:
		r.Bad(at, `groupId of <queue> needs useGroups="true"`)
	case place != "" && place != placequeue.AtBetween:
		r.Bad(at, "%s=%.40q of <queue> is unknown; it is %s", delimiterAt, place, placequeue.AtBetween)
	}
}
