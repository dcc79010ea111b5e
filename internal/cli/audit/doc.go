// Package audit has the commands that read and verify the audit log.
package audit
