package dataset

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"restyle/internal/disk"
)

// Check is the result of one acceptance check.
type Check struct {
	ID    string `json:"id"`
	Pass  bool   `json:"pass"`
	Value string `json:"value"` // what was measured, as the check words it
}

// Judge is the opinion of a language model on a row: columns that inform, never a
// condition for a row to be kept.
type Judge struct {
	Model        string   `json:"model"`
	Tone         int      `json:"tone"` // 1 (not at all in the style) to 5
	Professional bool     `json:"professional"`
	Wrong        []string `json:"technically_wrong"` // quotes of what it holds to be wrong
}

// Certificate says where a row of the output comes from and what was checked on
// it. It is a line of JSON in the certificates file; the keys are listed here.
type Certificate struct {
	Row            int     `json:"row"`    // place in the output, from 0
	SHA256         string  `json:"sha256"` // Rewritten.SHA256 of the row
	SourceName     string  `json:"source"`
	SourceRevision string  `json:"source_revision"`
	SourceRow      int     `json:"source_row"` // Row.Index
	Teacher        string  `json:"teacher"`
	Model          string  `json:"model"`
	Style          string  `json:"style"`
	StyleSHA256    string  `json:"style_sha256"`
	PromptSHA256   string  `json:"prompt_sha256"`
	Seed           int64   `json:"seed"`
	Attempt        int     `json:"attempt"` // 1 for the first answer, 2 after a re-ask
	Checks         []Check `json:"checks"`
	Judge          *Judge  `json:"judge,omitempty"`
}

// CertificatePath returns the path of the certificates of an output file: of "x.json" it is "x.certificates.jsonl". Every
// other name keeps its extension, so that no two files share certificates: of "x.parquet" it is
// "x.parquet.certificates.jsonl".
func CertificatePath(out string) string {
	return strings.TrimSuffix(out, ".json") + ".certificates.jsonl"
}

// ReadCertificates reads a certificates file. Errors name the line. Keys that are
// not known are ignored, so that a later version may add some.
func ReadCertificates(path string) ([]Certificate, error) {
	f, err := disk.OpenInput(path)
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	defer f.Close()
	certs, err := readCertificates(f)
	if err != nil {
		return nil, fmt.Errorf("dataset: %s: %w", filepath.Base(path), err)
	}
	return certs, nil
}

func readCertificates(r io.Reader) ([]Certificate, error) {
	lines := lineReader{r: bufio.NewReader(r)}
	var certs []Certificate
	for {
		raw, err := lines.next()
		if err == io.EOF {
			return certs, nil
		}
		if err != nil {
			return nil, err
		}
		c, err := parseCertificate(raw)
		if err != nil {
			return nil, lines.fail(err)
		}
		certs = append(certs, c)
	}
}

func parseCertificate(raw []byte) (Certificate, error) {
	_, values, err := object(raw) // refuses what encoding/json lets pass
	if err != nil {
		return Certificate{}, err
	}
	for _, key := range []string{"row", "sha256", "checks"} {
		if k := kind(values[key]); k == "nothing" || k == "null" {
			return Certificate{}, fmt.Errorf("the key %q is missing or null", key)
		}
	}
	var c Certificate
	if err := json.Unmarshal(raw, &c); err != nil {
		return Certificate{}, err
	}
	if len(c.SHA256) != 64 || strings.Trim(c.SHA256, "0123456789abcdef") != "" {
		return Certificate{}, fmt.Errorf("sha256 %.80q is not 64 lower-case hex digits", c.SHA256)
	}
	if c.Row < 0 {
		return Certificate{}, fmt.Errorf("row %d is negative", c.Row)
	}
	return c, nil
}

// Certification says of each row whether a certificate vouches for it. The lists
// hold row numbers, from 0, in order; a row that is not valid is in exactly one.
type Certification struct {
	Valid   []bool
	Missing []int // no certificate speaks of this row
	Changed []int // the certificate of this place is for a text that is in no row any more
	Failed  []int // the certificate records a check that did not pass
}

// Why says why no certificate vouches for a row, "" where one does.
func (c Certification) Why(row int) string {
	for _, list := range []struct {
		rows []int
		why  string
	}{
		{c.Missing, "no certificate speaks of it"},
		{c.Changed, "it was changed after it was certified"},
		{c.Failed, "its certificate has a check that failed"},
	} {
		if _, found := slices.BinarySearch(list.rows, row); found {
			return list.why
		}
	}
	return ""
}

// Certify matches rows with certificates by content, so that rows may be
// shuffled, removed and repeated; a row that was edited after it was checked is
// found.
func Certify(rows []Rewritten, certs []Certificate) Certification {
	passed := map[string]bool{} // by hash; any certificate that passed will do
	at := map[int]string{}      // the hash that was certified for a place
	for _, c := range certs {
		ok := len(c.Checks) > 0 // a certificate without checks vouches for nothing
		for _, check := range c.Checks {
			ok = ok && check.Pass
		}
		passed[c.SHA256] = passed[c.SHA256] || ok
		at[c.Row] = c.SHA256
	}
	hashes := make([]string, len(rows))
	present := map[string]bool{}
	for i, r := range rows {
		hashes[i] = r.SHA256()
		present[hashes[i]] = true
	}
	result := Certification{Valid: make([]bool, len(rows))}
	for i, h := range hashes {
		ok, known := passed[h]
		was, placed := at[i]
		switch {
		case ok:
			result.Valid[i] = true
		case known:
			result.Failed = append(result.Failed, i)
		case placed && !present[was]:
			result.Changed = append(result.Changed, i)
		default:
			result.Missing = append(result.Missing, i)
		}
	}
	return result
}
