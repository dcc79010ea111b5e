//go:build !amd64

package codepage

// allScans are the scans of this processor.
func allScans() []scan { return []scan{either} }
