// Package agent has the commands that list, show, ping, change and remove agents.
package agent
