package errands

import (
	"time"
)

// Times of registrations.
const (
	MaxClockOff        = time.Hour        // between the clocks of a client and of the queue manager
	RegisterEvery      = 2 * time.Minute  // between two registrations that a client gives its queue manager
	RegistrationLife   = 10 * time.Minute // the time for which a registration counts after it has come
	RegistrationsAgain = time.Second      // until a client repeats a registration that failed
)
