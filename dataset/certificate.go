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

// Judge is the opinion of a language model on a row. It is for information: rows are refused because of it only on
// demand, and then the certificate has a check A13.
type Judge struct {
	Model        string   `json:"model"`
	Tone         int      `json:"tone"` // 1 (not at all in the style) to 5
	Professional bool     `json:"professional"`
	Wrong        []string `json:"technically_wrong"` // quotes that it considers wrong
}

// Certificate records where a row of gen's output comes from and which checks it passed. The certificates file holds
// one per line, as JSON with these keys.
type Certificate struct {
	Row            int     `json:"row"`    // index in the output, from 0
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
	Attempt        int     `json:"attempt"` // 1 for the first answer, 2 if the teacher was asked again
	Checks         []Check `json:"checks"`
	Judge          *Judge  `json:"judge,omitempty"`
}

// CertificatePath returns the path of an output file's certificates: "x.certificates.jsonl" for "x.json". Any other
// name keeps its extension, so that no two files share certificates: "x.parquet.certificates.jsonl" for "x.parquet".
func CertificatePath(out string) string {
	return strings.TrimSuffix(out, ".json") + ".certificates.jsonl"
}

// ReadCertificates reads a certificates file. Errors name the line. It ignores unknown keys, so that a later version
// may add some.
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
	_, values, err := object(raw) // stricter than encoding/json
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
		return Certificate{}, fmt.Errorf("sha256 %.80q: must be 64 lower-case hex digits", c.SHA256)
	}
	if c.Row < 0 {
		return Certificate{}, fmt.Errorf("row %d: must be at least 0", c.Row)
	}
	return c, nil
}

// Certification tells which rows have a certificate that vouches for them. The lists hold row numbers, from 0, in
// ascending order. A row that is not valid is in exactly one list.
type Certification struct {
	Valid   []bool
	Missing []int // the row has no certificate
	Changed []int // the certificate at this index is for a text that no row has any more
	Failed  []int // the certificate records a check that did not pass
}

// Why returns why no certificate vouches for a row, or "" if one does.
func (c Certification) Why(row int) string {
	for _, list := range []struct {
		rows []int
		why  string
	}{
		{c.Missing, "it has no certificate"},
		{c.Changed, "it was changed after it was certified"},
		{c.Failed, "its certificate has a check that failed"},
	} {
		if _, found := slices.BinarySearch(list.rows, row); found {
			return list.why
		}
	}
	return ""
}

// Certify matches rows with certificates by content: rows may be shuffled, removed or repeated, but not edited after
// they were checked.
func Certify(rows []Rewritten, certs []Certificate) Certification {
	passed := map[string]bool{} // by hash; any certificate that passed will do
	at := map[int]string{}      // the hash that was certified at an index
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
		was, certified := at[i]
		switch {
		case ok:
			result.Valid[i] = true
		case known:
			result.Failed = append(result.Failed, i)
		case certified && !present[was]:
			result.Changed = append(result.Changed, i)
		default:
			result.Missing = append(result.Missing, i)
		}
	}
	return result
}
