// Command ferry moves files between hosts under management: checksummed,
// restartable, committed exactly once, and on record.
package main

import (
	"os"

	"ferry/internal/cli"
)

// version is set by the build.
var version = "development"

func main() { os.Exit(cli.Main(version, os.Args, os.Stdout, os.Stderr)) }
