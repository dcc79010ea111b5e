// Package commands parses the command lines of IBM MQ MFT's commands: fteCreateTransfer, fteCancelTransfer and others. It
// returns their requests in the types of package mft/xml and in Ferry's own terms; internal/cli carries them out.
//
// A command is a table of options (Commands). An option is a flag, or takes the next argument; -w takes it only if it
// is a number. An option without a counterpart in Ferry either has no effect (Call.Notices reports it) or is not built
// yet (Call.Lacks refuses it): Ferry ignores no option silently.
package commands
