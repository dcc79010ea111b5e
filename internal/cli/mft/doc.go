// Package mft has the commands of IBM MQ Managed File Transfer under their own names, and the commands that take its
// documents and configurations.
package mft
