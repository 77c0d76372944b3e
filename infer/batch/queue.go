package batch

import "slices"

// A queue is requests that wait. Keys take turns; of one key, and of those that made room for others, the first that
// came is the first that goes.
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

// next returns the request whose turn it is, or nil.
func (q *queue) next() *sequence {
	switch {
	case len(q.back) > 0:
		return q.back[0]
	case len(q.keys) > 0:
		return q.of[q.keys[0]][0]
	}
	return nil
}

// pop removes the request that next returned, and gives the turn to the next key.
func (q *queue) pop() {
	q.n--
	if len(q.back) > 0 {
		q.back = q.back[1:]
		return
	}
	key := q.keys[0]
	q.keys = q.keys[1:]
	if q.of[key] = q.of[key][1:]; len(q.of[key]) > 0 {
		q.keys = append(q.keys, key)
		return
	}
	delete(q.of, key)
}

// contains reports whether a request that waits is as f says.
func (q *queue) contains(f func(s *sequence) bool) bool {
	for _, waiting := range q.of {
		if slices.ContainsFunc(waiting, f) {
			return true
		}
	}
	return slices.ContainsFunc(q.back, f)
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
	for q.n > 0 {
		s := q.next()
		q.pop()
		end(s)
	}
}
