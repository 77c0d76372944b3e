package dataset

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
)

// Output writes rows and their certificates, flat in memory, and shows both files
// at the end or neither. It is not safe for use by several goroutines at once.
type Output struct {
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
func Create(path string) (*Output, error) {
	newWriter, err := rowWriterFor(path)
	if err != nil {
		return nil, err
	}
	data, err := createPending(path)
	if err != nil {
		return nil, err
	}
	certs, err := createPending(CertificatePath(path))
	if err != nil {
		return nil, errors.Join(err, data.discard())
	}
	o := &Output{data: data, certs: certs, rows: newWriter(data), certBuffer: bufio.NewWriter(certs)}
	o.certEncoder = json.NewEncoder(o.certBuffer)
	o.certEncoder.SetEscapeHTML(false)
	return o, nil
}

// Write adds a row and its certificate, in which it sets Row and SHA256. A row
// that is not valid UTF-8, or with a field of more than 512 KiB, is refused: it
// could not be read back.
func (o *Output) Write(r Rewritten, c Certificate) error {
	if o.err != nil {
		return o.err
	}
	c.Row, c.SHA256 = o.count, r.SHA256()
	if c.Checks == nil {
		c.Checks = []Check{}
	}
	err := r.check()
	if err == nil {
		err = o.rows.row(r)
	}
	if err == nil {
		err = o.certEncoder.Encode(c)
	}
	if err != nil {
		o.err = fmt.Errorf("dataset: row %d: %w", o.count, err)
		return o.err
	}
	o.count++
	return nil
}

// Commit puts both files in place and ends the output; after an error neither new
// file is there, or only the certificates. They go first: should the process die between
// the two, the rows of the old data that the new one has not are without a certificate,
// which Certify reports, and the same run again leaves the certificates alone and
// replaces the data, which ends as if nothing had happened.
func (o *Output) Commit() (Committed, error) {
	err := o.err
	if err == nil {
		if err = errors.Join(o.rows.finish(), o.certBuffer.Flush()); err != nil {
			err = fmt.Errorf("dataset: %w", err)
		}
	}
	if err != nil {
		o.Discard() // the error that led here says more than one from tidying up
		return Committed{}, err
	}
	result := Committed{Rows: o.count, DataPath: o.data.path, CertsPath: o.certs.path}
	data, certs := o.data, o.certs
	o.data, o.certs, o.err = nil, nil, errors.New("dataset: the output is closed")
	// Both must be able to reach the disk before either is shown.
	if err = errors.Join(data.Sync(), certs.Sync()); err != nil {
		return Committed{}, errors.Join(fmt.Errorf("dataset: %w", err), data.discard(), certs.discard())
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
func (o *Output) CommitAs(path string) (Committed, error) {
	if o.data != nil {
		o.data.path, o.certs.path = path, CertificatePath(path)
	}
	return o.Commit()
}

// Discard removes what was written. After Commit or Discard it does nothing.
func (o *Output) Discard() error {
	if o.data == nil {
		return nil
	}
	err := errors.Join(o.data.discard(), o.certs.discard())
	o.data, o.certs, o.err = nil, nil, errors.New("dataset: the output is closed")
	return err
}
