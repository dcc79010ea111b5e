package place

// An Actor is a Source that others keep, such as application queues. They are told the principal of each errand.
type Actor interface {
	As(principal string) Source
}

// As is a source for a principal, by its token.
func As(s Source, principal string) Source {
	if a, ok := s.(Actor); ok {
		return a.As(principal)
	}
	return s
}
