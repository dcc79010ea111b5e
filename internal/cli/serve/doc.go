// Package serve has the commands that run a process: a queue manager, agents, coordination or an authority.
package serve
