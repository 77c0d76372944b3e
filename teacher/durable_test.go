package teacher

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"restyle/internal/disk"
	"restyle/internal/expect"
)

// A watcher records the calls that change the disk, and makes calls of one kind fail while fail is set.
type watcher struct {
	mu     sync.Mutex
	events []string
	fail   string // operation and file name
	synced chan bool
}

func watch(t *testing.T) *watcher {
	w := &watcher{synced: make(chan bool, 100)}
	t.Cleanup(disk.Watch(func(op string, names ...string) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		event := op + " " + filepath.Base(names[0])
		w.events = append(w.events, event)
		if event == "sync "+journalName {
			w.synced <- true
		}
		if event == w.fail {
			return syscall.ENOSPC
		}
		return nil
	}))
	return w
}

func (w *watcher) failing(event string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = event
}

func (w *watcher) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

func answerRecord(i int) AnswerRecord {
	return AnswerRecord{Key: key(i), Row: i, Attempt: 1, Answer: Answer{Text: "an answer", Finish: "stop"}}
}

// TestJournalIsSynced checks that opening syncs the directory, and that every answer is synced soon after it arrives,
// without Close.
func TestJournalIsSynced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "work")
	w := watch(t)
	j := openJournal(t, dir)
	if got, want := w.seen(), []string{"create lock", "create " + journalName, "syncdir work"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for i := range 3 {
		expect.OK(t, j.Add(answerRecord(i)))
		<-w.synced // otherwise go test's time limit ends the test
	}
	expect.OK(t, errors.Join(j.Add(answerRecord(3)), j.Close()))
	if got := w.seen(); got[len(got)-1] != "sync "+journalName {
		t.Errorf("the last call was %q", got[len(got)-1])
	}
}

// TestJournalFullDisk checks that a partly written line is removed, and that the journal accepts no more records.
func TestJournalFullDisk(t *testing.T) {
	dir := t.TempDir()
	whole := fillJournal(t, dir, 2)
	path := filepath.Join(dir, journalName)
	w := watch(t)
	j := openJournal(t, dir)
	w.failing("write " + journalName)
	first := j.Add(answerRecord(2))
	w.failing("")
	for _, err := range []error{first, j.Add(answerRecord(3)), j.Err()} {
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), "free some space") {
			t.Error(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(whole) {
		t.Errorf("there are %d bytes instead of %d: %v", len(got), len(whole), err)
	}
	j.Close()
	if j = openJournal(t, dir); j.Torn != 0 || j.Damaged != 0 || j.Answers() != 2 {
		t.Errorf("%d torn, %d damaged, %d answers", j.Torn, j.Damaged, j.Answers())
	}
	if err := errors.Join(j.Add(answerRecord(2)), j.Close()); err != nil {
		t.Error(err)
	}
}

// TestJournalSyncFails checks that a failed sync is final, because the kernel may have dropped what it could not
// write.
func TestJournalSyncFails(t *testing.T) {
	dir := t.TempDir()
	w := watch(t)
	j := openJournal(t, dir)
	w.failing("sync " + journalName)
	expect.OK(t, j.Add(answerRecord(0)))
	<-w.synced
	w.failing("")
	if err := j.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
}

// TestJournalIsPrivate checks that only the owner can read prompts and answers.
func TestJournalIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "work")
	fillJournal(t, dir, 1)
	for name, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, journalName): 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// TestOtherUsersLinks_AreNotFollowed puts links in the places of the lock and the journal, and checks that nothing is
// written through them.
func TestOtherUsersLinks_AreNotFollowed(t *testing.T) {
	outside := t.TempDir()
	victim := filepath.Join(outside, "victim")
	for _, target := range []string{victim, filepath.Join(outside, "missing")} {
		for _, name := range []string{"lock", journalName} {
			dir := t.TempDir()
			expect.OK(t, errors.Join(os.WriteFile(victim, []byte("mine"), 0o666),
				os.Symlink(target, filepath.Join(dir, name))))
			if _, err := OpenJournal(dir); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, name)) {
				t.Errorf("%s: %v", name, err)
			}
			if got, err := os.ReadFile(victim); string(got) != "mine" || err != nil {
				t.Errorf("%s: the victim has %q, %v", name, got, err)
			}
			if entries, _ := os.ReadDir(outside); len(entries) != 1 {
				t.Errorf("%s: there is %v", name, entries)
			}
		}
	}
	// The directory itself may be the user's own link, but not another user's if others can create one.
	shared, real := t.TempDir(), t.TempDir()
	link := filepath.Join(shared, "work")
	expect.OK(t, os.Symlink(real, link))
	openJournal(t, link).Close()
	if os.Geteuid() != 0 {
		return // only root can act as another user
	}
	os.Chmod(shared, 0o777|os.ModeSticky)
	if err := os.Lchown(link, 4321, -1); err != nil {
		t.Skip("root cannot act as another user: ", err) // as in a user namespace without another user
	}
	if _, err := OpenJournal(link); err == nil || !strings.Contains(err.Error(), "user 4321") {
		t.Error(err)
	}
}

// TestBackUpKeepsAll checks that a renamed journal is never overwritten.
func TestBackUpKeepsAll(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{".bak", ".bak.2", ".bak.3"} {
		fillJournal(t, dir, i+1)
		if kept, err := BackUp(dir); err != nil || filepath.Base(kept) != journalName+name {
			t.Fatal(kept, err)
		}
	}
	for i, name := range []string{".bak", ".bak.2", ".bak.3"} {
		data, err := os.ReadFile(filepath.Join(dir, journalName+name))
		if err != nil || strings.Count(string(data), `"answer"`) != i+1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
