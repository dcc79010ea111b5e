package descriptor

// Limit is how many handles this process may have: there is no limit to speak of.
func Limit() int { return Unlimited }
