package dataset

import "strings"

// Reject is a row of a source from which gen made none, and why. The rejects file holds one per line, as JSON with
// these keys.
type Reject struct {
	SourceName     string `json:"source"`
	SourceRevision string `json:"source_revision"`
	SourceRow      int    `json:"source_row"` // index in that source, from 0
	Check          string `json:"check"`      // the check that it failed; "S0" if the row cannot be read
	Reason         string `json:"reason"`
	Attempts       int    `json:"attempts"` // answers that were refused; 0 if the teacher was not asked

	// The row; empty if it cannot be read.
	Instruction string `json:"instruction"`
	Input       string `json:"input"`
	Output      string `json:"output"`

	Answer string `json:"answer,omitempty"` // the teacher's last answer, with everything around the rewrite
}

// RejectsPath returns the path of an output file's rejects: "x.rejects.jsonl" for "x.json", and for any other name as
// [CertificatePath] does.
func RejectsPath(out string) string {
	return strings.TrimSuffix(out, ".json") + ".rejects.jsonl"
}
