package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/expect"
)

// TestReadOnly runs gen on a read-only file system.
func TestReadOnly(t *testing.T) {
	f := newFolder(t)
	if err := syscall.Mount("tmpfs", f.dir, "tmpfs", syscall.MS_RDONLY, ""); err != nil {
		t.Skip("cannot mount one: ", err)
	}
	defer syscall.Unmount(f.dir, syscall.MNT_DETACH)
	s := newServer(t, nil)
	o := must(t, cli.Failed, runArgs(f, tasks(t, 2*faultRows), s.base())...)
	if strings.Count(o.stderr, "gen: ") != 1 || !strings.Contains(o.stderr, f.dir) {
		t.Errorf("want one message that names the place, got %v", o)
	}
	if calls, _ := s.counts(); calls > 0 {
		t.Errorf("%d requests whose answers could not be recorded", calls)
	}
}

// TestFullDisk runs gen on a disk that is too small, and then on a larger one.
func TestFullDisk(t *testing.T) {
	if n := os.Getpagesize(); n > 4<<10 {
		t.Skipf("a file has %d bytes of such a file system at least: the journal would fit into them", n)
	}
	source := tasks(t, 2*faultRows)
	want := clean(t, source)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Skip("no small file system to fill: ", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	s := newServer(t, nil)
	f := newFolder(t)
	args := runArgs(f, source, s.base(), "--work", filepath.Join(dir, "work"))
	o := must(t, cli.Failed, args...)
	if !strings.Contains(o.stderr, "no space left") || strings.Count(o.stderr, "free some space") != 1 {
		t.Error(o)
	}
	s.outlive(t)
	before, _ := s.counts()
	kept := len(answers([]byte(expect.Read(t, filepath.Join(dir, "work", "journal.log")))))
	if kept == 0 {
		t.Error("the journal is empty")
	}
	expect.OK(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=16m"))
	must(t, cli.Done, args...)
	if f.result(t) != want {
		t.Error("the result differs from that on a large disk")
	}
	after, distinct := s.counts()
	if asked := after - before; asked != distinct-kept {
		t.Errorf("%d requests for %d missing answers", asked, distinct-kept)
	}

	// There is space for the journal, but not for the output.
	dir = t.TempDir()
	expect.OK(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16k"))
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	small := folder{dir, filepath.Join(dir, "data.json")}
	args = runArgs(small, source, s.base(), "--work", f.out+".work")
	o = must(t, cli.Failed, args...)
	if !strings.Contains(o.stderr, "no space left") {
		t.Error(o)
	}
	if files := small.files(t); len(files) > 0 {
		t.Errorf("files left over: %v", files)
	}
	expect.OK(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=16m"))
	s.outlive(t)
	before, _ = s.counts()
	kept = len(answers([]byte(expect.Read(t, filepath.Join(f.out+".work", "journal.log")))))
	must(t, cli.Done, args...)
	if small.result(t) != want {
		t.Error("the result differs from that on a large disk")
	}
	if after, _ := s.counts(); after-before != distinct-kept {
		t.Errorf("%d requests for %d missing answers", after-before, distinct-kept)
	}
}
