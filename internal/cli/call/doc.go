// Package call has the commands that run a program at an agent.
package call
