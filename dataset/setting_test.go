package dataset

import (
	"errors"
	"testing"

	"restyle/internal/expect"
)

// TestErrors_NameTheSetting checks that an error that another setting would avoid names the setting, even if the child
// process found it.
func TestErrors_NameTheSetting(t *testing.T) {
	named := hubCache(t, map[string]string{"test.jsonl": `{"instruction":"a","output":"b"}`})
	for _, c := range []struct {
		spec    string
		o       Options
		setting string
	}{
		{"testdata/other_columns.parquet", Options{}, "columns"},
		{"testdata/nested.parquet", Options{}, "columns"},
		{"testdata/answers_empty.parquet", Options{}, "columns"},
		{expect.File(t, "x.json", `[{"instruction":"a","output":"b","response":"c"}]`), Options{}, "columns"},
		{expect.File(t, "x.jsonl", `{"a":"b"}`), Options{Columns: Columns{Output: "c"}}, "columns"},
		{"owner/name", Options{Hub: named}, "split"},
		{expect.File(t, "x.json", `[{"instruction":7,"output":"b"}]`), Options{}, ""},
	} {
		_, _, err := all(c.spec, c.o)
		var setting *SettingError
		if err == nil || errors.As(err, &setting) != (c.setting != "") || setting != nil && setting.Setting() != c.setting {
			t.Errorf("%s: %v: setting %v, want %q", c.spec, err, setting, c.setting)
		}
	}
}
