package dataset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/internal/hostile"

	"github.com/google/go-cmp/cmp"
)

func TestSHA256(t *testing.T) {
	// From: python3 -c 'import hashlib,struct; print(hashlib.sha256(b"".join(struct.pack(">Q",len(f))+f for f in
	// [b"a",b"",b"b",b"c"])).hexdigest())'
	const want = "67828f4f00b886c92b0a49b80f76c7317caa87d8501a0d4cb2a35be3fa209cfd"
	if got := (Rewritten{"a", "", "b", "c"}).SHA256(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	seen := map[string]Rewritten{}
	for _, r := range []Rewritten{{}, {"ab", "", "", ""}, {"a", "b", "", ""}, {"", "ab", "", ""}, {"a", "", "b", ""},
		{"", "", "", "ab"}, {"a\x00b", "", "", ""}} {
		if other, twice := seen[r.SHA256()]; twice {
			t.Errorf("%+v and %+v have one digest", r, other)
		}
		seen[r.SHA256()] = r
	}
}

func TestCertify(t *testing.T) {
	rows := make([]Rewritten, 6)
	certs := make([]Certificate, len(rows))
	for i := range rows {
		rows[i] = Rewritten{Instruction: fmt.Sprint("Task ", i), OutputOriginal: "print(1)", OutputPassiveAggressive: "Sigh."}
		certs[i] = Certificate{Row: i, SHA256: rows[i].SHA256(), Checks: []Check{{"A1", true, "stop"}}}
	}
	edited := slices.Clone(rows)
	edited[3].OutputPassiveAggressive += " "
	failed := slices.Clone(certs)
	failed[2].Checks = []Check{{"A1", true, ""}, {"A5", false, "no"}}
	reversed := slices.Clone(rows)
	slices.Reverse(reversed)
	for _, c := range []struct {
		name                     string
		rows                     []Rewritten
		certs                    []Certificate
		missing, changed, failed []int
	}{
		{"all", rows, certs, nil, nil, nil},
		{"nothing", nil, nil, nil, nil, nil},
		{"no certificates", rows[:2], nil, []int{0, 1}, nil, nil},
		{"another order", reversed, certs, nil, nil, nil},
		{"rows removed", rows[4:], certs, nil, nil, nil},
		{"a row repeated", append(slices.Clone(rows), rows[1]), certs, nil, nil, nil},
		{"a row edited", edited, certs, nil, []int{3}, nil},
		{"a row edited and another before it removed", edited[1:], certs, []int{2}, nil, nil},
		{"a row added at the end", append(slices.Clone(rows), Rewritten{Instruction: "new"}), certs, []int{6}, nil, nil},
		{"a row added at the start", append([]Rewritten{{Instruction: "new"}}, rows...), certs, []int{0}, nil, nil},
		{"a certificate removed", rows, slices.Delete(slices.Clone(certs), 4, 5), []int{4}, nil, nil},
		{"a failed check", rows, failed, nil, nil, []int{2}},
		{"a failed check, passed elsewhere", rows, append(slices.Clone(failed), certs[2]), nil, nil, nil},
		{"a passed check, failed elsewhere", rows, append(slices.Clone(certs), failed[2]), nil, nil, nil},
		{"the first check failed", rows[:1], []Certificate{{SHA256: certs[0].SHA256, Checks: []Check{{"A1", false, ""},
			{"A2", true, ""}}}}, nil, nil, []int{0}},
	} {
		got := Certify(c.rows, c.certs)
		want := Certification{make([]bool, len(c.rows)), c.missing, c.changed, c.failed}
		for i := range c.rows {
			want.Valid[i] = !slices.Contains(slices.Concat(c.missing, c.changed, c.failed), i)
		}
		for i := range c.rows {
			why := map[string]bool{"": want.Valid[i], "it has no certificate": slices.Contains(c.missing, i),
				"it was changed after it was certified":   slices.Contains(c.changed, i),
				"its certificate has a check that failed": slices.Contains(c.failed, i)}
			if !why[got.Why(i)] {
				t.Errorf("%s: row %d: %q", c.name, i, got.Why(i))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.name, diff)
		}
	}
}

func TestReadCertificates(t *testing.T) {
	sum := strings.Repeat("0123456789abcdef", 4)
	good := `{"row":3,"sha256":"` + sum + `","checks":[]}`
	for _, c := range []struct {
		name, content string
		count         int
		words         []string
	}{
		{"none", "", 0, nil},
		{"one", good, 1, nil},
		{"blank lines, keys of a later version", good + "\n\n" + strings.Replace(good, "{", `{"later":{"x":1},`, 1) + "\n", 2,
			nil},
		{"judge", `{"row":0,"sha256":"` + sum + `","checks":[{"id":"A1","pass":true,"value":"x"}],` +
			`"judge":{"model":"m","tone":4,"professional":true,"technically_wrong":["a"]}}`, 1, nil},
		{"torn last line", good + "\n" + good[:40], 0, []string{"line 2", "incomplete"}},
		{"not an object", good + "\n[]", 0, []string{"line 2", "an array"}},
		{"no hash", `{"row":0,"checks":[]}`, 0, []string{"line 1", `"sha256" is missing`}},
		{"no row", `{"sha256":"` + sum + `","checks":[]}`, 0, []string{`"row" is missing`}},
		{"no checks", `{"row":0,"sha256":"` + sum + `"}`, 0, []string{`"checks" is missing`}},
		{"null checks", `{"row":0,"sha256":"` + sum + `","checks":null}`, 0, []string{"checks"}},
		{"short hash", `{"row":0,"sha256":"abc","checks":[]}`, 0, []string{"64 lower-case hex digits"}},
		{"upper-case hash", `{"row":0,"sha256":"` + strings.ToUpper(sum) + `","checks":[]}`, 0, []string{"64 lower-case"}},
		{"negative row", `{"row":-1,"sha256":"` + sum + `","checks":[]}`, 0, []string{"row -1"}},
		{"broken row", `{"row":0.5,"sha256":"` + sum + `","checks":[]}`, 0, []string{"line 1", "row"}},
		{"huge row", `{"row":1e99,"sha256":"` + sum + `","checks":[]}`, 0, []string{"row"}},
		{"a key twice", `{"row":0,"row":1,"sha256":"` + sum + `","checks":[]}`, 0, []string{`"row" occurs twice`}},
		// A check without a result counts as not passed.
		{"a check without a result", `{"row":0,"sha256":"` + sum + `","checks":[{"id":"A1"}]}`, 1, nil},
		{"words for a result", `{"row":0,"sha256":"` + sum + `","checks":[{"id":"A1","pass":"yes"}]}`, 0, []string{"pass"}},
	} {
		got, err := ReadCertificates(expect.File(t, "x.certificates.jsonl", c.content))
		if c.words != nil {
			if err == nil {
				t.Errorf("%s: accepted", c.name)
				continue
			}
			expect.Error(t, err, append(c.words, "x.certificates.jsonl")...)
		} else if err != nil || len(got) != c.count {
			t.Errorf("%s: %d, %v", c.name, len(got), err)
		}
	}
	_, err := ReadCertificates("testdata/none")
	expect.Error(t, err, "no such file")
}

func TestCertificatePath(t *testing.T) {
	for out, want := range map[string]string{
		"x.json": "x.certificates.jsonl", "data/x.jsonl": "data/x.jsonl.certificates.jsonl",
		"a.b.parquet": "a.b.parquet.certificates.jsonl", "x.JSON": "x.JSON.certificates.jsonl",
		"a.b.json":                          "a.b.certificates.jsonl",
		"data/passive_aggressive_data.json": "data/passive_aggressive_data.certificates.jsonl",
	} {
		if got := CertificatePath(out); got != want {
			t.Errorf("%s: %s", out, got)
		}
	}
}

// FuzzCertificates checks that certificates that are read, written and read again stay the same.
func FuzzCertificates(f *testing.F) {
	f.Add([]byte(`{"row":3,"sha256":"` + strings.Repeat("0123456789abcdef", 4) +
		`","checks":[{"id":"A1","pass":true,"value":"x"}],"judge":{"tone":3}}`))
	f.Add([]byte("{}\n{"))
	for _, text := range hostile.Wide() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		certs, err := hostile.Parse(t, data, func(data []byte) ([]Certificate, error) {
			return readCertificates(bytes.NewReader(data))
		})
		if err != nil {
			return
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		for _, c := range certs {
			expect.OK(t, enc.Encode(c))
		}
		again, err := readCertificates(&b)
		if err != nil || cmp.Diff(certs, again) != "" {
			t.Errorf("%v: %v, -first +second\n%s", certs, err, cmp.Diff(certs, again))
		}
	})
}

// TestCertificateWithoutChecks checks that a certificate that lists no checks vouches for nothing.
func TestCertificateWithoutChecks(t *testing.T) {
	row := Rewritten{Instruction: "a", OutputOriginal: "b", OutputPassiveAggressive: "c"}
	found := Certify([]Rewritten{row}, []Certificate{{SHA256: row.SHA256()}})
	if found.Valid[0] || found.Why(0) != "its certificate has a check that failed" {
		t.Errorf("%+v, %q", found, found.Why(0))
	}
}
