// Package request has the flags that describe a transfer. Package client/draft makes the request of their values.
package request
