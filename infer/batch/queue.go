package batch

import "slices"

// A queue holds requests that wait. Keys take turns. Of one key, and of the requests that made room for others, the
// first to come is the first to go.
type queue struct {
	back []*sequence // have run before
	keys []string    // the one whose turn it is in front
	of   map[string][]*sequence
	n    int
}

func (q *queue) push(s *sequence) {
	q.n++
	if s.admitted {
		// The one that was preempted last had been admitted before those preempted earlier in the same step.
		q.back = slices.Insert(q.back, 0, s)
		return
	}
	if q.of == nil {
		q.of = map[string][]*sequence{}
	}
	key := s.request.Key
	if len(q.of[key]) == 0 {
		q.keys = append(q.keys, key)
	}
	q.of[key] = append(q.of[key], s)
}

// all yields the requests, first the ones whose turn comes first.
func (q *queue) all(yield func(s *sequence) bool) {
	for _, s := range q.back {
		if !yield(s) {
			return
		}
	}
	for _, key := range q.keys {
		for _, s := range q.of[key] {
			if !yield(s) {
				return
			}
		}
	}
}

// next returns the request whose turn it is, or nil. Those that prepare miss their turn.
func (q *queue) next() *sequence {
	for s := range q.all {
		if !s.preparing {
			return s
		}
	}
	return nil
}

// pop removes a request that next returned, and gives the turn to the next key.
func (q *queue) pop(s *sequence) {
	q.n--
	if i := slices.Index(q.back, s); i >= 0 {
		q.back = slices.Delete(q.back, i, i+1)
		return
	}
	key := s.request.Key
	i := slices.Index(q.keys, key)
	q.keys = slices.Delete(q.keys, i, i+1)
	i = slices.Index(q.of[key], s)
	if q.of[key] = slices.Delete(q.of[key], i, i+1); len(q.of[key]) > 0 {
		q.keys = append(q.keys, key)
		return
	}
	delete(q.of, key)
}

// contains reports whether a request that waits is as f says.
func (q *queue) contains(f func(s *sequence) bool) bool {
	for s := range q.all {
		if f(s) {
			return true
		}
	}
	return false
}

// removeOver removes the requests that have ended.
func (q *queue) removeOver() {
	over := func(s *sequence) bool { return s.over }
	q.back = slices.DeleteFunc(q.back, over)
	q.n = len(q.back)
	q.keys = slices.DeleteFunc(q.keys, func(key string) bool {
		q.of[key] = slices.DeleteFunc(q.of[key], over)
		if q.n += len(q.of[key]); len(q.of[key]) > 0 {
			return false
		}
		delete(q.of, key)
		return true
	})
}

// clear ends all requests.
func (q *queue) clear(end func(s *sequence)) {
	for s := range q.all {
		end(s)
	}
	*q = queue{}
}
