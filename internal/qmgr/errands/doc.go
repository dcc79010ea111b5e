// Package errands has the questions to a queue manager, and their answers.
//
// An Errand is an operation that the queue manager does for a client without the right to do it itself. A Registrar does
// errands, in turns of their askers. A question without a body asks for About. The package has no connection: client and
// server give it the bytes of messages.
package errands
