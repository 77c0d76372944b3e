package data

import "time"

// SetTrialTime sets the time limit of a trial, until the function that it returns is called.
func SetTrialTime(d time.Duration) (restore func()) {
	old := trialTime
	trialTime = d
	return func() { trialTime = old }
}
