// Package request has the flags that describe a transfer, and makes a request of them.
package request
