package output

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"restyle/dataset"
)

// Writer writes rows and their certificates, flat in memory, and shows both files
// at the end or neither. It is not safe for use by several goroutines at once.
type Writer struct {
	data, certs *pending
	rows        rowWriter
	certBuffer  *bufio.Writer
	certEncoder *json.Encoder
	count       int
	err         error // the first failure; nothing is committed after it
}

// Committed says what became of the two files.
type Committed struct {
	Rows                int
	DataPath, CertsPath string
	Data, Certificates  Outcome
}

// Create starts an output. The extension of path chooses the format: .json (an
// array), .jsonl or .parquet (zstd). Until Commit both files have other names; a second
// process that writes the same output is refused.
func Create(path string) (*Writer, error) {
	newWriter, err := rowWriterFor(path)
	if err != nil {
		return nil, err
	}
	data, err := createPending(path)
	if err != nil {
		return nil, err
	}
	certs, err := createPending(dataset.CertificatePath(path))
	if err != nil {
		return nil, errors.Join(err, data.discard())
	}
	w := &Writer{data: data, certs: certs, rows: newWriter(data), certBuffer: bufio.NewWriter(certs)}
	w.certEncoder = json.NewEncoder(w.certBuffer)
	w.certEncoder.SetEscapeHTML(false)
	return w, nil
}

// Write adds a row and its certificate, in which it sets Row and SHA256. A row
// that is not valid UTF-8, or with a field of more than 512 KiB, is refused: it
// could not be read back.
func (w *Writer) Write(r dataset.Rewritten, c dataset.Certificate) error {
	if w.err != nil {
		return w.err
	}
	c.Row, c.SHA256 = w.count, r.SHA256()
	if c.Checks == nil {
		c.Checks = []dataset.Check{}
	}
	err := r.Check()
	if err == nil {
		err = w.rows.row(r)
	}
	if err == nil {
		err = w.certEncoder.Encode(c)
	}
	if err != nil {
		w.err = fmt.Errorf("output: row %d: %w", w.count, err)
		return w.err
	}
	w.count++
	return nil
}

// Commit puts both files in place and ends the output; after an error neither new
// file is there, or only the certificates. They go first: should the process die between
// the two, the rows of the old data that the new one has not are without a certificate,
// which dataset.Certify reports, and the same run again leaves the certificates alone and
// replaces the data, which ends as if nothing had happened.
func (w *Writer) Commit() (Committed, error) {
	err := w.err
	if err == nil {
		if err = errors.Join(w.rows.finish(), w.certBuffer.Flush()); err != nil {
			err = fmt.Errorf("output: %w", err)
		}
	}
	if err != nil {
		w.Discard() // the error that led here says more than one from tidying up
		return Committed{}, err
	}
	result := Committed{Rows: w.count, DataPath: w.data.path, CertsPath: w.certs.path}
	data, certs := w.data, w.certs
	w.data, w.certs, w.err = nil, nil, errors.New("output: the output is closed")
	// Both must be able to reach the disk before either is shown.
	if err = errors.Join(data.Sync(), certs.Sync()); err != nil {
		return Committed{}, errors.Join(fmt.Errorf("output: %w", err), data.discard(), certs.discard())
	}
	if result.Certificates, err = certs.commit(); err != nil {
		return Committed{}, errors.Join(err, data.discard())
	}
	if result.Data, err = data.commit(); err != nil {
		return Committed{}, err
	}
	return result, nil
}

// CommitAs is Commit under another path in the same file system, for what was made of an output before it had to stop.
func (w *Writer) CommitAs(path string) (Committed, error) {
	if w.data != nil {
		w.data.path, w.certs.path = path, dataset.CertificatePath(path)
	}
	return w.Commit()
}

// Discard removes what was written. After Commit or Discard it does nothing.
func (w *Writer) Discard() error {
	if w.data == nil {
		return nil
	}
	err := errors.Join(w.data.discard(), w.certs.discard())
	w.data, w.certs, w.err = nil, nil, errors.New("output: the output is closed")
	return err
}
