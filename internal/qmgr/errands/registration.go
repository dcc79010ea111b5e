package errands

import (
	"time"
)

const (
	MaxClockOff = time.Hour
)

const (
	RegisterEvery    = 2 * time.Minute  // between two registrations that a client gives its queue manager
	RegistrationLife = 10 * time.Minute // the time for which a registration counts after it has come
)

const (
	RegistrationsAgain = time.Second
)
