package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"restyle/internal/disk"
	"restyle/internal/expect"
)

// TestRecordIsSynced checks that a question is synced before it is answered, and an entry before the record says that
// it exists.
func TestRecordIsSynced(t *testing.T) {
	md := filepath.Join(t.TempDir(), "log.md")
	r, _, err := openRecord(md)
	expect.OK(t, err)
	defer r.close()
	var events []string
	defer disk.Watch(func(op string, names ...string) error {
		events = append(events, op+" "+filepath.Base(names[0]))
		return nil
	})()
	expect.OK(t, errors.Join(r.add(event{Event: "ask", ID: "1"}, true), r.add(event{Event: "part", ID: "1"}, false),
		r.log(&entry{id: "1"})))
	want := []string{"write log.jsonl", "sync log.jsonl", "write log.jsonl", "write log.md", "sync log.md",
		"write log.jsonl", "sync log.jsonl"}
	if !slices.Equal(events, want) {
		t.Errorf("%q, want %q", events, want)
	}
}

// TestRecordEveryCallFails makes each call fail once and checks that every question has exactly one entry after the
// next start.
func TestRecordEveryCallFails(t *testing.T) {
	for fail := 0; ; fail++ {
		md := filepath.Join(t.TempDir(), "log.md")
		n := -1
		stop := disk.Watch(func(string, ...string) error {
			if n++; n == fail {
				return syscall.ENOSPC
			}
			return nil
		})
		r, _, err := openRecord(md)
		asked := false
		if err == nil {
			err = r.add(event{Event: "ask", ID: "1", Question: "q", Models: map[string]string{"base": "b"}}, true)
			asked = err == nil
		}
		if asked {
			err = r.log(&entry{id: "1", question: "q", answers: map[string]*answer{"base": {Text: "whole"}}})
		}
		r.close()
		stop()
		if (err == nil) != (n < fail) || err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("call %d of %d fails: %v", fail, n, err)
		}
		r, recovered, err := openRecord(md)
		expect.OK(t, err)
		r.close()
		if entries := strings.Count(expect.Read(t, md), "### Query"); asked && entries-recovered > 1 || asked &&
			entries == 0 {
			t.Errorf("call %d fails: %d entries, %d of them recovered", fail, entries, recovered)
		}
		if n < fail {
			break
		}
	}
}

// TestTwoChats checks that two chats at once lose nothing of each other's, and that a third does not recover the one
// that is still running.
func TestTwoChats(t *testing.T) {
	md := filepath.Join(t.TempDir(), "log.md")
	first, _, err := openRecord(md)
	expect.OK(t, err)
	second, _, err := openRecord(md)
	expect.OK(t, err)
	defer second.close()
	for _, r := range []*record{first, second, first, second} {
		expect.OK(t, r.add(event{Event: "ask", ID: newID(), Question: "q", Models: map[string]string{"base": "b"}},
			false))
	}
	if events := readEvents(t, jsonlPath(md)); len(events) != 4 {
		t.Errorf("%d events of 4 are there", len(events))
	}
	first.close()
	third, recovered, err := openRecord(md)
	if err != nil || recovered != 0 {
		t.Errorf("%d entries of a running chat were written, %v", recovered, err)
	}
	third.close()
}

// TestRecord_ReadsCompleteAnswers checks that later parts are not appended to a complete answer, and that the latest
// questions are remembered.
func TestRecord_ReadsCompleteAnswers(t *testing.T) {
	md := filepath.Join(t.TempDir(), "log.md")
	r, _, err := openRecord(md)
	expect.OK(t, err)
	for i := range keptQuestions + 3 {
		r.add(event{Event: "ask", ID: fmt.Sprint(i), Question: fmt.Sprint(i), Models: map[string]string{"base": "b"}}, false)
		r.add(event{Event: "answer", ID: fmt.Sprint(i), Model: "base", Answer: &answer{Text: "whole", Reason: "stop"}}, false)
		r.add(event{Event: "part", ID: fmt.Sprint(i), Text: map[string]string{"base": "more"}}, false)
	}
	unfinished, err := r.read()
	if err != nil || len(unfinished) != keptQuestions+3 || unfinished[0].answers["base"].Text != "whole" {
		t.Errorf("%d unfinished, %+v, %v", len(unfinished), unfinished[0].answers["base"], err)
	}
	if asked := r.questions(); len(asked) != keptQuestions || asked[0] != "3" ||
		asked[keptQuestions-1] != fmt.Sprint(keptQuestions+2) {
		t.Errorf("%d questions: %q", len(asked), asked)
	}
	r.close()
}

// TestRecordIsPrivate checks that only the owner can read questions and answers, including what /save writes.
func TestRecordIsPrivate(t *testing.T) {
	dir := t.TempDir()
	log, saved := filepath.Join(dir, "log.md"), filepath.Join(dir, "saved.json")
	if o := invoke(t, "Count to ten.\n/save "+saved+"\n", "--base", tinyBase, "--only", "base", "--log",
		log); o.code != 0 {
		t.Fatal(o)
	}
	for _, path := range []string{log, jsonlPath(log), saved} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// TestRecordThroughLinks checks that a user's own symbolic link is followed, even to a file that does not exist yet,
// and that another user's link is not.
func TestRecordThroughLinks(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	md := filepath.Join(dir, "log.md")
	for _, path := range []string{md, jsonlPath(md)} {
		expect.OK(t, os.Symlink(filepath.Join(outside, filepath.Base(path)), path))
	}
	for range 2 {
		r, _, err := openRecord(md)
		expect.OK(t, err)
		expect.OK(t, errors.Join(r.log(&entry{id: "1", question: "q"}), r.close()))
	}
	was := expect.Read(t, filepath.Join(outside, "log.md")) + expect.Read(t, filepath.Join(outside, "log.jsonl"))
	if os.Geteuid() == 0 { // only root can act as another user
		expect.OK(t, os.Chmod(dir, 0o777|fs.ModeSticky))
		for _, path := range []string{md, jsonlPath(md)} {
			if err := os.Lchown(path, 4321, -1); err != nil {
				t.Skip("this root cannot give files to other users: ", err)
			}
			if _, _, err := openRecord(md); err == nil || !strings.Contains(err.Error(), "user 4321") ||
				!strings.Contains(err.Error(), "--log") {
				t.Errorf("%s: %v", path, err)
			}
			os.Lchown(path, 0, -1)
		}
	}
	if got := expect.Read(t, filepath.Join(outside, "log.md")) +
		expect.Read(t, filepath.Join(outside, "log.jsonl")); got != was {
		t.Errorf("written through another user's link: %q", got)
	}
	pipe := filepath.Join(outside, "pipe.md")
	expect.OK(t, syscall.Mkfifo(pipe, 0o666))
	_, _, err := openRecord(pipe)
	expect.Error(t, err, "not a regular file", "choose another file with --log")
}
