package teacher

import (
	"bufio"
	"bytes"
	"cmp"
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

// A Journal is the append-only log of a work directory. It holds every answer ever received, one per line, under a key
// made of the exact bytes of the request. Everything else about a run is a function of the source, the settings and
// these answers, so a run that was killed is resumed by running it again.
//
// A line is the CRC-32C of the rest in eight hexadecimal digits, a space, and a JSON object. An incomplete last line,
// as a kill leaves it, is dropped when the journal is opened. A damaged line anywhere else is skipped and counted, and
// its answer is requested again. A Journal may be used by several goroutines at once.
type Journal struct {
	Torn    int // bytes of an incomplete last line, dropped
	Damaged int // whole lines with a wrong checksum, skipped

	dir  string
	lock *disk.File
	file *disk.File

	mu       sync.Mutex
	size     int64
	answers  map[[16]byte]span // by hash of the key: where the line is
	run      *runRecord        // the last run that was started
	done     *doneRecord       // its end; nil while it is unfinished
	answered bool              // it has received an answer: there is something to lose
	dirty    bool              // something is written and not synced
	err      error             // the first failed write or fsync; final
	wake     chan struct{}     // something was written
	closing  chan struct{}
	stopped  chan struct{}
}

// A span is where a line is in the journal.
type span struct {
	offset int64
	length int32
}

// A record is the content of one line. Exactly one field is set.
type record struct {
	Run     *runRecord     `json:"run,omitempty"`
	Answer  *AnswerRecord  `json:"answer,omitempty"`
	Failure *FailureRecord `json:"failure,omitempty"`
	Done    *doneRecord    `json:"done,omitempty"`
}

// A runRecord is the start of a run: what its result depends on, in words that a person can compare.
type runRecord struct {
	Settings  []Setting `json:"settings"`
	Endpoints []string  `json:"endpoints,omitempty"` // asked by this run; their answers stay valid if others take over
	Time      time.Time `json:"time"`
}

// Setting is one named value of a run.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// AnswerRecord is an answer or a refusal of a teacher.
type AnswerRecord struct {
	Key     string `json:"key"` // hash of the request's bytes and the endpoint
	Row     int    `json:"row"` // of the source, from 0
	Attempt int    `json:"attempt"`
	Answer
}

// FailureRecord is a request that got no answer. It is for people to read; a resumed run asks again.
type FailureRecord struct {
	Row     int    `json:"row"`
	Attempt int    `json:"attempt"`
	Error   string `json:"error"`
}

// A doneRecord is the end of a finished run.
type doneRecord struct {
	Time    time.Time `json:"time"`
	Summary Summary   `json:"summary"`
}

const (
	journalName = "journal.log"
	maxLine     = 64 << 20 // bytes; the longest answer is far shorter, even with every character escaped
	syncEvery   = 50 * time.Millisecond
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// OpenJournal opens the journal of a work directory, creating either if it does not exist, and locks the directory
// until Close. If another process has locked it, the error wraps [disk.ErrLocked].
func OpenJournal(dir string) (*Journal, error) {
	dir, err := disk.Follow(dir)
	if err == nil {
		err = disk.MakeDir(dir, 0o700) // prompts and answers are the user's own
	}
	if err != nil {
		return nil, fmt.Errorf("work directory: %w", err)
	}
	lock, err := disk.Lock(filepath.Join(dir, "lock"))
	if errors.Is(err, disk.ErrLocked) {
		return nil, fmt.Errorf("work directory: %w: wait for it", err)
	}
	if err != nil {
		return nil, fmt.Errorf("work directory %s: cannot write: %w", dir, err)
	}

	j := emptyJournal()
	j.dir, j.lock = dir, lock
	path := filepath.Join(dir, journalName)
	j.file, err = disk.Open(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = disk.SyncDir(dir) // a synced record must be found under the file's name
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

// load reads the journal, drops an incomplete last line and seeks to the end.
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

// index reads the records of a whole journal into the index.
func (j *Journal) index(journal io.Reader) error {
	r := bufio.NewReaderSize(journal, 64<<10)
	for {
		line, n, whole, err := disk.ReadLine(r, maxLine)
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

// decode parses a line. ok is false for a damaged one.
func decode(line []byte) (record, bool) {
	var rec record
	return rec, sound(line) && json.Unmarshal(line[9:], &rec) == nil
}

// sound reports whether a line matches its checksum.
func sound(line []byte) bool {
	if len(line) < 10 || line[8] != ' ' {
		return false
	}
	sum, err := strconv.ParseUint(string(line[:8]), 16, 32)
	return err == nil && uint32(sum) == crc32.Checksum(line[9:], castagnoli)
}

// answerKey returns the key of a line with an answer that stands, as most lines of a journal are, without parsing all
// of it. ok is false for all other lines, and for lines that decode has to parse. In a JSON string a quotation mark
// has a backslash before it, so that what answerKey searches for can only be the field itself.
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

// How the line of an answer starts, and what the line of a refusal contains.
const (
	answerBegin   = `{"answer":{"key":"`
	answerRefused = `"finish":"` + refusedFinish + `"`
)

// short returns half of a key's SHA-256. The index keeps this half, which is a quarter of the key's own size.
func short(key string) [16]byte {
	sum := sha256.Sum256([]byte(key))
	return [16]byte(sum[:16])
}

// take adds a record to the index.
func (j *Journal) take(rec record, at span) {
	switch {
	case rec.Answer != nil && rec.Answer.stands():
		j.enter(rec.Answer.Key, at)
	case rec.Answer != nil:
		j.answered = true
	case rec.Run != nil:
		if j.done != nil || j.run == nil || len(differences(j.run.Settings, rec.Run.Settings)) > 0 {
			j.answered = false
		}
		j.run, j.done = rec.Run, nil
	case rec.Done != nil:
		j.done = rec.Done
	}
}

// enter adds an answer that stands to the index. If there are several under one key, the first counts, so that a
// replay repeats the run.
func (j *Journal) enter(key string, at span) {
	j.answered = true
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
		j.err = fmt.Errorf("journal %s: %w: the answers so far are kept there: "+
			"free some space and run the same command again", j.file.Name(), err)
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

// syncLoop syncs what was written, at most syncEvery later.
func (j *Journal) syncLoop() {
	defer close(j.stopped)
	for {
		select {
		case <-j.wake:
		case <-j.closing:
			j.sync()
			return
		}
		select { // let more writes share the sync
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

// Answers returns the number of requests that have an answer.
func (j *Journal) Answers() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.answers)
}

// Add records an answer under its key.
func (j *Journal) Add(rec AnswerRecord) error { return j.append(record{Answer: &rec}) }

// Fail records a request that got no answer.
func (j *Journal) Fail(rec FailureRecord) error { return j.append(record{Failure: &rec}) }

// A DifferentRun is the error of [Journal.Start] if the work directory has an unfinished run with other settings.
type DifferentRun struct {
	Differences []string // one per setting, such as `seed: it has "0", this run "1"`
}

func (e *DifferentRun) Error() string {
	text := "the work directory has an unfinished run with other settings:"
	for _, d := range e.Differences {
		text += "\n  " + d
	}
	return text + "\nfinish that run with its settings"
}

// Start starts a run with these settings, or resumes the unfinished run if it has the same ones. It returns all
// endpoints of the run, both these and the ones that an earlier part of it asked: changing endpoints does not make it
// another run.
func (j *Journal) Start(settings []Setting, endpoints []string) (all []string, resumed bool, err error) {
	all = endpoints
	if j.run != nil {
		diff := differences(j.run.Settings, settings)
		if len(diff) > 0 && j.done == nil && j.answered {
			return nil, false, &DifferentRun{diff}
		}
		if len(diff) == 0 {
			all = distinct(append(slices.Clone(endpoints), j.run.Endpoints...))
			resumed = j.done == nil && j.answered
			if j.done == nil && len(all) == len(j.run.Endpoints) {
				return all, resumed, nil
			}
		}
	}
	return all, resumed, j.append(record{Run: &runRecord{Settings: settings, Endpoints: all, Time: now()}})
}

func now() time.Time { return time.Now().UTC().Round(time.Second) }

// differences describes the settings in which two runs differ.
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

// Finish marks the run as finished, so that a run with other settings may follow.
func (j *Journal) Finish(s Summary) error {
	return j.append(record{Done: &doneRecord{Time: now(), Summary: s}})
}

// LastRun returns the summary of the last run of a work directory, or nil if there is none or it is unfinished.
func LastRun(dir string) (*Summary, error) {
	j, err := OpenJournal(dir)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	if j.done == nil {
		return nil, nil
	}
	return &j.done.Summary, nil
}

// Err returns the first error of a write or sync, or nil if all have succeeded.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Close syncs and closes the journal and unlocks its directory.
func (j *Journal) Close() error {
	close(j.closing)
	<-j.stopped
	return cmp.Or(j.Err(), j.file.Close(), j.lock.Close()) // all are called
}

// BackUp renames the journal of a work directory to journal.log.bak, or .bak.2 and so on if that exists, and returns
// the new path, or "" if there is no journal. It locks the directory while it does so.
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
