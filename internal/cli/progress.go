package cli

import (
	"fmt"
	"time"
)

// A Progress draws on a status line what a command is doing, and how long that will take.
type Progress struct {
	Line *StatusLine

	task  string
	start time.Time // of the task
}

// Draw draws a task, the part of it that is being done, unless that is empty, and the share of it that is done. Once
// the share is more than 5%, Draw says how long the rest will take if it goes as fast as the share did.
func (p *Progress) Draw(task, what string, share float64) {
	if task != p.task {
		p.task, p.start = task, time.Now()
	}
	line := task + ": "
	if what != "" {
		line += what + ", "
	}
	line += fmt.Sprintf("%.0f%%", 100*share)
	if share > 0.05 {
		took := time.Since(p.start)
		line += fmt.Sprintf(", %v left", time.Duration(float64(took)*(1-share)/share).Round(time.Second))
	}
	p.Line.Draw(line)
}
