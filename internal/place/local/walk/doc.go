// Package walk finds files beneath the roots of an agent. It expands the sources of a request, literals and patterns,
// into items in a stated order, scans directories for monitors, and lists names. Its memory does not grow with the
// number of files. It opens no file, and changes none.
package walk
