package view

import (
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An EntryLine is a name in a directory of an agent.
type EntryLine struct {
	Agent    transfer.AgentName `json:"agent"`
	Path     transfer.Path      `json:"path"` // as a request takes it
	Type     string             `json:"type"` // file, directory, link, other
	Size     int64              `json:"size"`
	Modified time.Time          `json:"modified,omitzero"`
}

// EntryOf returns the form of a name in a directory of an agent.
func EntryOf(agent transfer.AgentName, at transfer.Path, e *wire.DirEntry) EntryLine {
	l := EntryLine{Agent: agent, Path: at, Type: e.Type, Size: e.Size}
	if e.Mtime != 0 {
		l.Modified = time.Unix(0, e.Mtime).UTC()
	}
	return l
}
