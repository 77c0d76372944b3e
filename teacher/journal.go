package teacher

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"restyle/internal/disk"
)

// A Journal is the append-only record of a work folder: one line an attempt, written at once. It holds every answer
// that was ever received, under a key made of the exact bytes that were asked; everything else about a run is a
// function of the source, the settings and these answers, so a run that was killed is resumed by running it again.
//
// A line is the CRC-32C of the rest in eight hexadecimal digits, a space, and a JSON object. A line cut short by a kill
// is dropped when the journal is opened; a damaged one anywhere else is skipped and counted, and its answer asked for
// again.
type Journal struct {
	Torn    int // bytes of an unfinished last line that were cut off
	Damaged int // whole lines that did not match their checksum, skipped

	dir  string
	lock *disk.File
	file *disk.File

	mu      sync.Mutex
	size    int64
	answers map[[16]byte]span // hash of the key -> where the line stands
	run     *RunRecord        // the last run that was begun
	done    *DoneRecord       // its end, nil while it is unfinished
	begun   bool              // it has received an answer: there is something to lose
	dirty   bool
	err     error         // the first write or fsync that failed; final
	wake    chan struct{} // something was written
	closing chan struct{}
	stopped chan struct{}
}

type span struct {
	offset int64
	length int32
}

// A record is one line. Exactly one field is set.
type record struct {
	Run     *RunRecord     `json:"run,omitempty"`
	Answer  *AnswerRecord  `json:"answer,omitempty"`
	Failure *FailureRecord `json:"failure,omitempty"`
	Done    *DoneRecord    `json:"done,omitempty"`
}

// RunRecord is the beginning of a run: what its result depends on, in words that a person can compare.
type RunRecord struct {
	Settings  []Setting `json:"settings"`
	Endpoints []string  `json:"endpoints,omitempty"` // that have been asked; their answers stay good when others take over
	Time      time.Time `json:"time"`
}

// Setting is one named value of a run.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// AnswerRecord is an answer that a teacher gave.
type AnswerRecord struct {
	Key     string `json:"key"` // hash of the request's bytes and the endpoint
	Row     int    `json:"row"` // of the source, from 0
	Attempt int    `json:"attempt"`
	Answer
}

// FailureRecord is a request that brought no answer. It is not replayed.
type FailureRecord struct {
	Row     int    `json:"row"`
	Attempt int    `json:"attempt"`
	Error   string `json:"error"`
}

// DoneRecord is the end of a finished run.
type DoneRecord struct {
	Time    time.Time `json:"time"`
	Summary Summary   `json:"summary"`
}

const (
	journalName = "journal.log"
	maxLine     = 64 << 20 // bytes; what a server may answer is capped far below, also with every character escaped
	syncEvery   = 50 * time.Millisecond
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// OpenJournal opens the journal of a work folder, making both where they do not exist, and locks the folder until
// Close. It is an error wrapping [disk.ErrLocked] if another process has it.
func OpenJournal(dir string) (*Journal, error) {
	dir, err := disk.Follow(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700) // prompts and answers are the user's own
	}
	if err != nil {
		return nil, fmt.Errorf("work folder: %w", err)
	}
	lock, err := disk.Lock(filepath.Join(dir, "lock"))
	if errors.Is(err, disk.ErrLocked) {
		return nil, fmt.Errorf("work folder: %w: wait for it, or give this run its own --out or --work", err)
	}
	if err != nil {
		return nil, fmt.Errorf("work folder %s cannot be written: %w", dir, err)
	}

	j := emptyJournal()
	j.dir, j.lock = dir, lock
	path := filepath.Join(dir, journalName)
	j.file, err = disk.Open(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = disk.SyncDir(dir) // what is synced in the file must be found under its name
	}
	if err == nil {
		err = j.load()
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("journal %s: %w", path, err)
	}
	go j.syncLoop()
	return j, nil
}

func emptyJournal() *Journal {
	return &Journal{answers: map[[16]byte]span{}, wake: make(chan struct{}, 1),
		closing: make(chan struct{}), stopped: make(chan struct{})}
}

// load reads the file that is there, cuts a torn tail off and goes to the end.
func (j *Journal) load() error {
	if err := j.index(j.file); err != nil {
		return err
	}
	if j.Torn > 0 {
		if err := j.file.Truncate(j.size); err != nil {
			return err
		}
	}
	_, err := j.file.Seek(j.size, io.SeekStart)
	return err
}

// index takes the records of a whole journal in.
func (j *Journal) index(journal io.Reader) error {
	r := bufio.NewReaderSize(journal, 64<<10)
	for {
		line, n, whole, err := readLine(r)
		if err != nil {
			return err
		}
		if !whole {
			j.Torn = n
			return nil
		}
		at := span{j.size, int32(n)}
		if key, ok := answerKey(line); ok {
			j.enter(key, at)
		} else if rec, ok := decode(line); ok {
			j.take(rec, at)
		} else {
			j.Damaged++
		}
		j.size += int64(n)
	}
}

// readLine returns the next line without its newline, how many bytes it took, and whether its newline was there; at the end
// of the file it takes 0 bytes. A line beyond maxLine comes back empty: no record is that long.
func readLine(r *bufio.Reader) (line []byte, n int, whole bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		n += len(part)
		if n <= maxLine {
			line = append(line, part...)
		} else {
			line = nil
		}
		switch err {
		case nil:
			return bytes.TrimSuffix(line, []byte("\n")), n, true, nil
		case bufio.ErrBufferFull:
		case io.EOF:
			return line, n, false, nil
		default:
			return nil, n, false, err
		}
	}
}

func decode(line []byte) (record, bool) {
	var rec record
	return rec, sound(line) && json.Unmarshal(line[9:], &rec) == nil
}

// sound tells whether a line is as it was written.
func sound(line []byte) bool {
	if len(line) < 10 || line[8] != ' ' {
		return false
	}
	sum, err := strconv.ParseUint(string(line[:8]), 16, 32)
	return err == nil && uint32(sum) == crc32.Checksum(line[9:], castagnoli)
}

// answerKey returns the key of a line with an answer that stands, without taking all of it apart as decode does: most lines of a
// journal are such. ok is false for all others, and for those that only decode can tell. A quotation mark within a text is
// written with a backslash, so what is looked for can only be the field itself.
func answerKey(line []byte) (key string, ok bool) {
	const keyAt = 9 + len(answerBegin)
	if !sound(line) || !bytes.HasPrefix(line[9:], []byte(answerBegin)) || len(line) < keyAt+64 {
		return "", false
	}
	hash, rest := line[keyAt:keyAt+64], line[keyAt+64:]
	if len(bytes.Trim(hash, "0123456789abcdef")) > 0 || !bytes.HasPrefix(rest, []byte(`",`)) ||
		bytes.Contains(rest, []byte(answerRefused)) {
		return "", false
	}
	return string(hash), true
}

// How the line of an answer begins, and what that of a refused one has.
const (
	answerBegin   = `{"answer":{"key":"`
	answerRefused = `"finish":"` + refusedFinish + `"`
)

// short is the first half of a key's SHA-256: what the index keeps of it, a quarter of what the key itself would take.
func short(key string) [16]byte {
	sum := sha256.Sum256([]byte(key))
	return [16]byte(sum[:16])
}

// take enters a record into the index.
func (j *Journal) take(rec record, at span) {
	switch {
	case rec.Answer != nil && rec.Answer.stands():
		j.enter(rec.Answer.Key, at)
	case rec.Answer != nil:
		j.begun = true
	case rec.Run != nil:
		if j.done != nil || j.run == nil || len(differences(j.run.Settings, rec.Run.Settings)) > 0 {
			j.begun = false
		}
		j.run, j.done = rec.Run, nil
	case rec.Done != nil:
		j.done = rec.Done
	}
}

// enter puts an answer that stands into the index. The first under a key is the one, so that a replay repeats the run.
func (j *Journal) enter(key string, at span) {
	j.begun = true
	if _, ok := j.answers[short(key)]; !ok {
		j.answers[short(key)] = at
	}
}

// encode returns the line of a record.
func encode(rec record) ([]byte, error) {
	var buf bytes.Buffer
	buf.WriteString("00000000 ")
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(rec); err != nil {
		return nil, err
	}
	line := buf.Bytes()
	copy(line, fmt.Sprintf("%08x", crc32.Checksum(line[9:len(line)-1], castagnoli)))
	return line, nil
}

// append writes one record with a single write.
func (j *Journal) append(rec record) error {
	line, err := encode(rec)
	if err != nil {
		return err
	}

	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return j.err
	}
	if n, err := j.file.Write(line); err != nil {
		j.err = fmt.Errorf("journal %s: %w: what was made so far is kept there; make room and run the same command again",
			j.file.Name(), err)
		if n > 0 { // half a line would swallow the next one
			j.file.Truncate(j.size)
		}
		return j.err
	}
	j.take(rec, span{j.size, int32(len(line))})
	j.size += int64(len(line))
	j.dirty = true
	select {
	case j.wake <- struct{}{}:
	default:
	}
	return nil
}

// syncLoop makes what was written durable, at most syncEvery after it was written.
func (j *Journal) syncLoop() {
	defer close(j.stopped)
	for {
		select {
		case <-j.wake:
		case <-j.closing:
			j.sync()
			return
		}
		select { // gather what else is written meanwhile
		case <-time.After(syncEvery / 2):
		case <-j.closing:
		}
		j.sync()
	}
}

func (j *Journal) sync() {
	j.mu.Lock()
	dirty := j.dirty
	j.dirty = false
	j.mu.Unlock()
	if !dirty {
		return
	}
	if err := j.file.Sync(); err != nil {
		j.mu.Lock()
		if j.err == nil {
			j.err = fmt.Errorf("journal %s: %w", j.file.Name(), err)
		}
		j.mu.Unlock()
	}
}

// Find returns the answer under the first of the keys that has one.
func (j *Journal) Find(keys []string) (Answer, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, key := range keys {
		at, ok := j.answers[short(key)]
		if !ok {
			continue
		}
		line := make([]byte, at.length)
		if _, err := j.file.ReadAt(line, at.offset); err != nil {
			return Answer{}, false
		}
		if rec, ok := decode(bytes.TrimSuffix(line, []byte("\n"))); ok && rec.Answer != nil {
			return rec.Answer.Answer, true
		}
	}
	return Answer{}, false
}

// Answers is how many different requests have an answer.
func (j *Journal) Answers() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.answers)
}

// Add records an answer under its key.
func (j *Journal) Add(rec AnswerRecord) error { return j.append(record{Answer: &rec}) }

// Fail records a request that brought none.
func (j *Journal) Fail(rec FailureRecord) error { return j.append(record{Failure: &rec}) }

// A DifferentRun is the error of [Journal.Start] for a folder whose unfinished run was made with other settings.
type DifferentRun struct{ Differences []string }

func (e *DifferentRun) Error() string {
	text := "the work folder has an unfinished run with other settings:"
	for _, d := range e.Differences {
		text += "\n  " + d
	}
	return text + "\nrun that one to its end with its settings, or set it aside with --restart"
}

// Start starts a run with these settings, or resumes the unfinished one that has the same; resumed tells which. It
// returns the endpoints that the run has asked, these among them: where a server stands makes no other run of it.
func (j *Journal) Start(settings []Setting, endpoints []string) (all []string, resumed bool, err error) {
	all = endpoints
	if j.run != nil {
		diff := differences(j.run.Settings, settings)
		if len(diff) > 0 && j.done == nil && j.begun {
			return nil, false, &DifferentRun{diff}
		}
		if len(diff) > 0 {
			return all, false, j.append(record{Run: &RunRecord{Settings: settings, Endpoints: all, Time: now()}})
		}
		all = distinct(append(slices.Clone(endpoints), j.run.Endpoints...))
		if j.done == nil {
			resumed = j.begun
			if len(all) == len(j.run.Endpoints) {
				return all, resumed, nil
			}
		}
	}
	return all, resumed, j.append(record{Run: &RunRecord{Settings: settings, Endpoints: all, Time: now()}})
}

func now() time.Time { return time.Now().UTC().Round(time.Second) }

func differences(old, now []Setting) []string {
	values := map[string]string{}
	for _, s := range old {
		values[s.Name] = s.Value
	}
	var diff []string
	for _, s := range now {
		if was, ok := values[s.Name]; !ok || was != s.Value {
			diff = append(diff, fmt.Sprintf("%s: it has %q, this run %q", s.Name, was, s.Value))
		}
		delete(values, s.Name)
	}
	for _, s := range old {
		if was, ok := values[s.Name]; ok {
			diff = append(diff, fmt.Sprintf("%s: it has %q, this run none", s.Name, was))
		}
	}
	return diff
}

// Finish marks the run as finished, so that it never stands in the way of another.
func (j *Journal) Finish(s Summary) error {
	return j.append(record{Done: &DoneRecord{Time: now(), Summary: s}})
}

// LastRun returns the end of the last run of a work folder, nil if it has none or is unfinished.
func LastRun(dir string) (*DoneRecord, error) {
	j, err := OpenJournal(dir)
	if err != nil {
		return nil, err
	}
	return j.done, j.Close()
}

// Err is the first failed write, nil if none has failed.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Close makes everything durable and lets the folder go.
func (j *Journal) Close() error {
	close(j.closing)
	<-j.stopped
	err := j.Err()
	if e := j.file.Close(); err == nil {
		err = e
	}
	if e := j.lock.Close(); err == nil {
		err = e
	}
	return err
}

// BackUp renames the journal of a work folder to journal.log.bak, or .bak.2 and so on if that is taken, and returns
// the new path, "" if there was nothing to set aside. It takes the folder's lock while it does.
func BackUp(dir string) (kept string, err error) {
	if _, err := os.Stat(filepath.Join(dir, journalName)); errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	j, err := OpenJournal(dir)
	if err != nil {
		return "", err
	}
	defer j.Close()
	return disk.MoveToBackup(filepath.Join(dir, journalName))
}
