package view

import "ferry/internal/transfer"

// An UnknownLine says that objects could not be asked for.
type UnknownLine struct {
	MessageType string          `json:"message_type"` // unknown
	Objects     string          `json:"objects"`      // as a screen names them
	Error       *transfer.Error `json:"error"`
}

// UnknownOf returns the form of objects that could not be asked for, with the error of the question.
func UnknownOf(objects string, err error) UnknownLine {
	return UnknownLine{TypeUnknown, objects, transfer.AsError(err)}
}
