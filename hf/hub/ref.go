package hub

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Kind is a kind of repository.
type Kind string

// The kinds of repository that Resolve can read.
const (
	Model   Kind = "model"
	Dataset Kind = "dataset"
)

// A Ref names a revision of a repository.
type Ref struct {
	Kind Kind
	// ID is "owner/name", or "name" for the few repositories without an owner.
	ID string
	// Revision is a branch, a tag, a ref such as refs/convert/parquet, or a commit.
	Revision string
}

// String returns "dataset owner/name@revision", for messages.
func (r Ref) String() string { return fmt.Sprintf("%s %s@%s", r.Kind, r.ID, r.Revision) }

// ParseRef parses "owner/name" or "owner/name@revision". The default revision is "main". Both are safe as part of a URL
// and of a file name.
func ParseRef(kind Kind, s string) (Ref, error) {
	id, revision, found := strings.Cut(s, "@")
	if !found {
		revision = "main"
	}
	ref := Ref{kind, id, revision}
	return ref, ref.check()
}

func (r Ref) check() error {
	if r.Kind != Model && r.Kind != Dataset {
		return fmt.Errorf("kind of repository %q: must be %q or %q", r.Kind, Model, Dataset)
	}
	if why := wrongID(r.ID); why != "" {
		return fmt.Errorf("%q is not a hub repository: %s: give owner/name or owner/name@revision", r.ID, why)
	}
	if why := wrongRevision(r.Revision); why != "" {
		return fmt.Errorf("%q is not a revision of %s: %s: give a branch, a tag or a commit", r.Revision, r.ID, why)
	}
	return nil
}

// wrongID follows the rules of huggingface_hub's validate_repo_id. "--" separates the parts of an ID in the cache's
// directory names, so an ID with "--" would be ambiguous there.
func wrongID(id string) string {
	parts := strings.Split(id, "/")
	switch {
	case id == "":
		return "it is empty"
	case len(id) > 96:
		return "it is longer than 96 bytes"
	case len(parts) > 2:
		return "it has more than one slash"
	case strings.Contains(id, "--"), strings.Contains(id, ".."):
		return "it holds -- or .."
	case strings.HasSuffix(id, ".git"):
		return "it ends in .git"
	}
	for _, part := range parts {
		if part == "" || strings.Trim(part, "-.") != part {
			return "a part of it is empty, or starts or ends with a dash or a dot"
		}
		if i := strings.IndexFunc(part, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
		}); i >= 0 {
			return "it may hold only letters, digits, dash, dot and underscore"
		}
	}
	return ""
}

// wrongRevision follows git-check-ref-format, and the rules for paths, because the revision becomes refs/<revision>.
func wrongRevision(revision string) string {
	if why := wrongPath(revision); why != "" {
		return why
	}
	if i := strings.IndexAny(revision, " ~^:?*[@"); i >= 0 {
		return fmt.Sprintf("it holds %q", revision[i])
	}
	for part := range strings.SplitSeq(revision, "/") {
		if strings.HasPrefix(part, ".") || strings.HasPrefix(part, "-") || strings.HasSuffix(part, ".lock") {
			return "a part of it starts with a dot or a dash, or ends in .lock"
		}
	}
	return ""
}

// wrongPath returns the reason why a repository's path must not become a path on disk, "" if it may. It applies the
// rules of POSIX and of Windows, because a cache may be read on another system than it was written on.
func wrongPath(path string) string {
	switch {
	case path == "":
		return "it is empty"
	case len(path) > 1024:
		return "it is longer than 1024 bytes"
	case !utf8.ValidString(path):
		return "it is not UTF-8"
	case strings.Contains(path, `\`):
		return "it holds a backslash"
	}
	for _, r := range path {
		if r < ' ' || r == 0x7f {
			return "it holds a control character"
		}
	}
	for part := range strings.SplitSeq(path, "/") {
		switch {
		case part == "", part == ".", part == "..":
			return `a part of it is empty, "." or ".."`
		case len(part) > 255:
			return "a part of it is longer than 255 bytes"
		case len(part) > 1 && part[1] == ':' && (part[0]|0x20 >= 'a' && part[0]|0x20 <= 'z'):
			return "a part of it starts with a drive letter"
		}
	}
	return ""
}

// isHex reports whether s is n lower-case hex digits: 40 for a commit or git blob, 64 for a sha256.
func isHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}
