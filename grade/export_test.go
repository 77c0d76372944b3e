package grade

import "time"

// SetTrialTime sets the time limit of a trial, until the function that it returns is called.
func SetTrialTime(d time.Duration) (restore func()) { return SetTrialTimes(d, busyTime) }

// SetTrialTimes sets the time limits of both attempts of a trial, until the function that it returns is called.
func SetTrialTimes(first, second time.Duration) (restore func()) {
	old1, old2 := trialTime, busyTime
	trialTime, busyTime = first, second
	return func() { trialTime, busyTime = old1, old2 }
}

// SetWorkers sets how many trials run at the same time, until the function that it returns is called.
func SetWorkers(n int) (restore func()) {
	old := maxWorkers
	maxWorkers = n
	return func() { maxWorkers = old }
}

// Without makes this machine lack system calls from Python or control groups, until the function that it returns is
// called.
func Without(calls, groups bool) (restore func()) {
	without.calls, without.groups = calls, groups
	return func() { without.calls, without.groups = false, false }
}
