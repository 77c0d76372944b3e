package output

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"restyle/dataset"
	"restyle/internal/disk"
)

// Writer writes rows and their certificates to two files, which appear together at Commit. Its memory does not grow
// with the number of rows. It is not safe for concurrent use.
type Writer struct {
	data, certs *pending
	rows        rowWriter
	certBuffer  *bufio.Writer
	certEncoder *json.Encoder
	count       int
	err         error // the first failure; nothing is committed after it
}

// Committed is the result of Commit.
type Committed struct {
	Rows                int
	DataPath, CertsPath string
	Data, Certificates  disk.Outcome
}

// Create returns a Writer for the data file path and its certificates. The extension of path selects the format: .json
// (an array), .jsonl or .parquet (zstd). Until Commit both files have temporary names. If another process writes the
// same files, Create returns an error.
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

// Write adds a row and its certificate, whose Row and SHA256 it sets. A row that could not be read back is an error:
// see [dataset.Rewritten.Check]. After an error, Commit fails.
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

// Commit puts both files in place and closes the Writer. After an error neither new file is in place, or only the
// certificates.
//
// The certificates go first. If the process dies between the two, rows of the old data that the new data lacks have no
// certificate, as [dataset.Certify] reports. Another run with the same rows leaves the certificates unchanged and
// replaces the data.
func (w *Writer) Commit() (Committed, error) {
	err := w.err
	if err == nil {
		if err = errors.Join(w.rows.finish(), w.certBuffer.Flush()); err != nil {
			err = fmt.Errorf("output: %w", err)
		}
	}
	if err != nil {
		w.Discard() // err matters more than an error of Discard
		return Committed{}, err
	}
	result := Committed{Rows: w.count, DataPath: w.data.path, CertsPath: w.certs.path}
	data, certs := w.data, w.certs
	w.data, w.certs, w.err = nil, nil, errors.New("output: the output is closed")
	// Both must be on the disk before either appears.
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

// CommitAs does what Commit does, with another path on the same file system. gen uses it to save a partial output.
func (w *Writer) CommitAs(path string) (Committed, error) {
	if w.data != nil {
		w.data.path, w.certs.path = path, dataset.CertificatePath(path)
	}
	return w.Commit()
}

// Discard removes the temporary files. After Commit or Discard it does nothing.
func (w *Writer) Discard() error {
	if w.data == nil {
		return nil
	}
	err := errors.Join(w.data.discard(), w.certs.discard())
	w.data, w.certs, w.err = nil, nil, errors.New("output: the output is closed")
	return err
}
