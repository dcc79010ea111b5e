package errands

import (
	"time"
)

const (
	MaxClockOff = time.Hour
)

const (
	PlaceEvery = 2 * time.Minute  // between two places that a client gives its queue manager
	PlaceLife  = 10 * time.Minute // the time for which a place counts after it has come
)

const (
	PlacesAgain = time.Second
)
