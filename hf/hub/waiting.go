package hub

import (
	"fmt"
	"sync"
	"time"
)

// untilNotice is the time without an answer after which Hub.Waiting is called.
const untilNotice = 2 * time.Second

// A waiting calls Hub.Waiting, once, when one call has waited for some time.
type waiting struct {
	hub   *Hub
	began time.Time

	mu    sync.Mutex
	timer *time.Timer
	last  error // of the last try; nil during the first
	said  bool
}

// wait starts to wait.
func (h *Hub) wait() *waiting {
	w := &waiting{hub: h, began: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(untilNotice, w.say)
	return w
}

// stop ends the waiting, because something answers.
func (w *waiting) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
}

// failed records that a try failed and another one will come.
func (w *waiting) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = err
	w.timer.Reset(max(0, untilNotice-time.Since(w.began)))
}

func (w *waiting) say() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.said || w.hub.Waiting == nil {
		return
	}
	w.said = true
	reason := fmt.Sprintf("the hub has not answered for %s, and may take %s", untilNotice, stallTimeout)
	if w.last != nil {
		reason = w.hub.Token.Scrub(w.last.Error())
	}
	w.hub.Waiting(fmt.Sprintf("%s: trying up to %d times, with waits of half a minute in all; HF_HUB_OFFLINE=1 uses only "+
		"what is in the cache", reason, maxTries))
}
