// Package fte reads the command lines of IBM MQ MFT's commands: fteCreateTransfer,
// fteCancelTransfer and their like. It says what they ask for, in the types of package
// mftxml and in words of Ferry's; doing it is the business of cmd/ferry.
//
// A command is a table of options (Commands). An option is a flag, or takes the next
// argument; -w takes it where it is a number. What has no counterpart in Ferry is either
// of no effect (Call.Notices says so) or not built yet (Call.Lacks refuses it): no option is
// passed over in silence.
package fte
