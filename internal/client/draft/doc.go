// Package draft makes requests of the words of people and programs. It has the defaults, parses and checks. The command
// line fills in a Draft from flags, another interface from its own fields.
package draft
