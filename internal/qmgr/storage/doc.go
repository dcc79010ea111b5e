// Package storage is the store of an embedded queue manager in its directory. It runs the library's server on it, inspects
// it before clients use it, puts damaged streams aside, remembers its contents, and opens it again after a full disk.
package storage
