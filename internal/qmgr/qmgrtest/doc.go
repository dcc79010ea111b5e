// Package qmgrtest has the helpers that the tests of several packages of the queue manager share.
package qmgrtest
