// Package config reads and checks settings. The packages of the command line and node/member import it. Every other
// package owns its settings as a type of its own, and reads no settings from files or from the environment.
//
// A setting is a command-line flag that was given somewhere else. The command
// line wins over the environment (FERRY_ and the flag's name in capitals, with
// _ for -), the environment over the settings files, and a file over the
// flag's default. A settings file is YAML:
//
//	network: nats://hub:4222      # every command that has --network
//	send:                         # ferry send alone
//	  checksum: sha256
//	agent:
//	  run:                        # ferry agent run alone
//	    root: [/srv/in, /srv/out]
//
// A key that holds a value or a list is a flag; a key that holds more keys is
// a command. The narrower place wins, and before that the earlier file.
// Unknown keys are errors, because a misspelt setting that is silently ignored
// is found too late. Anchors, aliases, tags and second documents are refused:
// a file of settings has no use for them.
//
// Secrets are never settings: a URL with a password in it is refused wherever
// it comes from, and no error or listing repeats it.
package config
