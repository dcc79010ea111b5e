// Package view has the JSON forms of the objects of a network: agents, transfers, jobs, the definitions of duties, queues,
// audit records, identities. `ferry --json` prints them one a line. docs/output.schema.json is their schema.
//
// A form is a struct, and a function that makes it of the object. Every interface shows the same forms, so fields may be
// added and never renamed.
package view
