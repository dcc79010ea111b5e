package place

// An Actor is a Source that other programs keep, such as application queues. It needs the principal of each operation.
type Actor interface {
	As(principal string) Source
}

// As returns the source for a principal, given by its token.
func As(s Source, principal string) Source {
	if a, ok := s.(Actor); ok {
		return a.As(principal)
	}
	return s
}
