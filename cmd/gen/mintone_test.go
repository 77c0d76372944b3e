package main

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"restyle/dataset"
	"restyle/internal/cli"
	"restyle/internal/expect"
)

// judging reports whether a request is for the judge.
func judging(c call) bool {
	q, err := parseQuery(c.body)
	return err == nil && strings.HasPrefix(q.Messages[0].Content, "You compare two answers")
}

// rating is a fault: the judge rates answers 1 to 5 by their hash, and refuses or says nothing about a few.
func rating(c call) bool {
	if !judging(c) {
		return false
	}
	switch c.hash % 13 {
	case 0:
		c.stream("I would rather not say.", "stop")
	case 1:
		refuse(c.w, c.r, 400, "the content is not allowed")
	default:
		c.stream(fmt.Sprintf(`{"tone": %d, "professional": true, "technically_wrong": []}`, 1+c.hash>>8%5), "stop")
	}
	return true
}

func minTone(t *testing.T, s *server, more ...string) (folder, []string) {
	t.Helper()
	f := newFolder(t)
	return f, append([]string{"--source", tasks(t, 150), "--rows", "30", "--out", f.out, "--base-url", s.base(), "--model",
		"fake", "--judge", "fake", "--min-tone", "3"}, more...)
}

// TestMinTone checks that every row is rated high enough, that refused answers are asked for again with the reason, and
// that rows refused twice are rejects.
func TestMinTone(t *testing.T) {
	var again atomic.Int64 // requests that name the reason
	s := newServer(t, func(c call) bool {
		if !judging(c) && strings.Contains(string(c.body), "a reader rates the tone") {
			again.Add(1)
		}
		return rating(c)
	})
	f, args := minTone(t, s)
	o := must(t, cli.Done, args...)
	f.sound(t, 30)
	certs, err := dataset.ReadCertificates(dataset.CertificatePath(f.out))
	expect.OK(t, err)
	second, lowest := 0, 0
	for i, c := range certs {
		want := dataset.Check{ID: "A13", Pass: true}
		if c.Judge != nil {
			want.Value = fmt.Sprintf("tone %d of 5", c.Judge.Tone)
		}
		if c.Judge == nil || c.Judge.Tone < 3 || !slices.Contains(c.Checks, want) {
			t.Fatalf("row %d: %+v, %+v", i, c.Judge, c.Checks)
		}
		if c.Attempt == 2 {
			second++
		}
		if c.Judge.Tone == 3 {
			lowest++
		}
	}
	last := lastLine(t, o)
	refused := last["refused"].(map[string]any)["A13"].(float64)
	given := int(last["given_up"].(map[string]any)["A13"].(float64))
	if refused < 10 || second == 0 || lowest == 0 || again.Load() == 0 || last["judge_failed"] == nil ||
		!strings.Contains(o.stderr, "the judge rates the tone high enough") {
		t.Errorf("A13 refused %g; %d rows from second attempts, %d of tone 3; %d requests named the reason: %v",
			refused, second, lowest, again.Load(), o)
	}
	var reasons []string
	for _, r := range f.rejects(t) {
		if r.Check == "A13" {
			reasons = append(reasons, r.Reason)
			if r.Attempts != 2 || r.Answer == "" {
				t.Errorf("%+v", r)
			}
		}
	}
	all := strings.Join(reasons, "\n")
	if len(reasons) != given || given == 0 || !strings.Contains(all, "wanted is at least 3") {
		t.Errorf("%d rejects, %d given up:\n%s", len(reasons), given, all)
	}
	// The report has the run's counts.
	o = must(t, cli.Done, "--out", f.out, "--report")
	if !strings.Contains(o.stdout, "the judge rates the tone high enough") {
		t.Error(o)
	}
	// Everything that decided is in the journal.
	calls, _ := s.counts()
	result := f.result(t)
	must(t, cli.Done, args...)
	if now, _ := s.counts(); now != calls || f.result(t) != result {
		t.Errorf("run again: %d requests", now-calls)
	}
}

// TestMinToneResumes has the judge fail in the middle of a run, which then resumes to the same bytes.
func TestMinToneResumes(t *testing.T) {
	whole, args := minTone(t, newServer(t, rating))
	must(t, cli.Done, args...)
	var down atomic.Bool
	var rated atomic.Int64
	s := newServer(t, func(c call) bool {
		if judging(c) && (down.Load() || rated.Add(1) > 12) {
			down.Store(true)
			refuse(c.w, c.r, 503, "the judge is away")
			return true
		}
		return rating(c)
	})
	f, args := minTone(t, s, "--retries", "0", "--dead-timeout", "300ms")
	o := must(t, cli.Retry, args...)
	if !strings.Contains(o.stderr, "judge: ") || strings.Contains(o.stderr, "rows without an answer: 0") {
		t.Error(o)
	}
	if o := must(t, cli.Failed, append(args, "--min-tone", "4")...); !strings.Contains(o.stderr, "min tone") {
		t.Errorf("another threshold: %v", o)
	}
	s.set(func() { s.fault = rating })
	must(t, cli.Done, args...)
	if whole.result(t) != f.result(t) {
		t.Error("the resumed run made other rows")
	}
}

// TestMinToneWithoutOpinion checks that a judge that says nothing, or refuses everything, lets no row pass.
func TestMinToneWithoutOpinion(t *testing.T) {
	for _, c := range []struct {
		name, says string
		judge      func(call)
	}{
		{"says nothing", "A13: the judge gives no opinion", func(c call) { c.stream("I would rather not say.", "stop") }},
		{"refuses", "judge: ", func(c call) { refuse(c.w, c.r, 400, "no such model") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t, func(call call) bool {
				if judging(call) {
					c.judge(call)
					return true
				}
				return false
			})
			_, args := minTone(t, s)
			if o := must(t, cli.Failed, args...); !strings.Contains(o.stderr, c.says) {
				t.Error(o)
			}
		})
	}
}

// TestMinTonePreview checks that a preview refuses what the run would refuse.
func TestMinTonePreview(t *testing.T) {
	_, args := minTone(t, newServer(t, rating))
	o := must(t, cli.Done, append(args, "--preview", "10")...)
	if !strings.Contains(o.stdout, "refused by A13: a reader rates") || !strings.Contains(o.stdout, "A13  tone ") {
		t.Error(o)
	}
}

// TestMinToneBatch checks that a batch whose answers are judged makes the same rows as a live run.
func TestMinToneBatch(t *testing.T) {
	s := newServer(t, rating)
	live, args := minTone(t, s)
	must(t, cli.Done, args...)
	f := newFolder(t)
	args = []string{"--source", tasks(t, 150), "--rows", "30", "--out", f.out, "--model", "fake", "--judge", "fake",
		"--judge-url", s.base(), "--min-tone", "3"}
	file := f.dir + "/requests.jsonl"
	for round := 0; ; round++ {
		if round == 20 {
			t.Fatal("no end of rounds")
		}
		o := must(t, cli.Done, append(args, "--emit-batch", file)...)
		if lastLine(t, o)["rows"] != nil {
			break
		}
		results, _ := answerBatch(t, file, false)
		if invoke(t, append(args, "--ingest-batch", results)...).code == cli.Done {
			break
		}
	}
	if expect.Read(t, f.out) != expect.Read(t, live.out) {
		t.Error("the batch made other rows than the live run")
	}
}
