package dataset

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// chosen are the files of a split, in order.
type chosen struct {
	files  []string
	suffix string // of the dataset's name: ":config" if there are several
}

// choose returns the files of a split, which may also be the path of a file, a pattern of paths, or "directory/split".
// An empty split is "train". The dataset's card says which files belong to a split; read returns its text. A dataset
// whose card says nothing has the splits that its files' names tell, by the rules of Hugging Face's datasets. If the
// files have several formats, choose returns the files of the most frequent one.
func choose(paths []string, read func(path string) (string, error), config, split string) (chosen, error) {
	if split == "" {
		split = "train"
	}
	if slices.Contains(paths, split) {
		return chosen{files: []string{split}}, onlyFiles(config)
	}
	if hasMagic(split) {
		files, err := matches(paths, split)
		if err == nil && len(files) == 0 {
			err = &SettingError{"split", fmt.Errorf("no file with rows matches the pattern %q: name a split, or files among %s",
				split, list(paths))}
		}
		if err == nil {
			files, err = sameFormat(files)
		}
		if err == nil {
			err = onlyFiles(config)
		}
		return chosen{files: files}, err
	}
	configs, err := readConfigs(paths, read)
	if err != nil {
		return chosen{}, err
	}
	base, word := path.Split(split)
	if base == "" && len(configs) > 0 {
		c, err := pickConfig(configs, config)
		if err != nil {
			return chosen{}, err
		}
		var found chosen
		if len(configs) > 1 {
			found.suffix = ":" + c.Name
		}
		found.files, err = c.files(paths, word)
		return found, err
	}
	if base == "" && config != "" && config != "default" { // as the hub's own copies in parquet are laid out
		if base = config + "/"; len(within(paths, base)) == 0 {
			return chosen{}, fmt.Errorf("the dataset declares no configs, and has no directory %q: leave the config out", config)
		}
	}
	var found chosen
	if config != "" {
		found.suffix = ":" + config
	}
	found.files, err = byName(paths, base, word)
	return found, err
}

// onlyFiles returns an error if there is a config next to the names of files.
func onlyFiles(config string) error {
	if config == "" {
		return nil
	}
	return &SettingError{"split", fmt.Errorf("files are named as the split, which leaves no choice to the config %q: "+
		"leave one out", config)}
}

// cards are the files that declare configs, the first one with precedence.
var cards = []string{".huggingface.yaml", "README.md"}

// readConfigs returns the configs that a dataset declares.
func readConfigs(paths []string, read func(path string) (string, error)) (configs []declaredConfig, err error) {
	for _, name := range cards {
		if configs != nil || !slices.Contains(paths, name) {
			continue
		}
		text, err := read(name)
		if err != nil {
			return nil, err
		}
		parse := parseCard
		if path.Ext(name) == ".yaml" {
			parse = parseConfigs
		}
		if configs, err = parse(text); err != nil {
			return nil, &SettingError{"split", fmt.Errorf("%s: %w: name the wanted files as the split, such as \"data/*.jsonl\"",
				name, err)}
		}
	}
	return configs, nil
}

// files returns the files of a split of a config.
func (c *declaredConfig) files(paths []string, split string) ([]string, error) {
	splits, err := c.splits()
	if err != nil {
		return nil, err
	}
	dir := strings.TrimPrefix(path.Clean("/"+c.Dir)+"/", "/")
	if dir == "/" {
		dir = ""
	}
	if splits == nil {
		return byName(paths, dir, split)
	}
	at := slices.IndexFunc(splits, func(s declaredSplit) bool { return s.Name == split })
	if at < 0 {
		return nil, noSplit(split, " of the config "+fmt.Sprintf("%q", c.Name), splits)
	}
	var found []string
	for _, pattern := range splits[at].Paths {
		files, err := matches(within(paths, dir), pattern)
		if err != nil {
			return nil, fmt.Errorf("the card: %w", err)
		}
		if len(files) == 0 && !hasMagic(pattern) {
			return nil, fmt.Errorf("the card names the file %q, which is not there", dir+pattern)
		}
		found = append(found, files...)
	}
	for i := range found {
		found[i] = dir + found[i]
	}
	kept, err := sameFormat(found)
	if err != nil {
		return nil, err
	}
	for _, file := range found { // the card wants all of them, which datasets cannot read either
		if !slices.Contains(kept, file) && extension(file) != "" {
			return nil, &SettingError{"split", fmt.Errorf("the card mixes formats in the split %q, such as %q and %q: "+
				"name files of one as the split", split, kept[0], file)}
		}
	}
	return kept, nil
}

// noSplit returns the error for a split that a dataset does not have.
func noSplit(split, of string, splits []declaredSplit) error {
	var names []string
	for _, s := range splits {
		names = append(names, s.Name)
	}
	return &SettingError{"split", fmt.Errorf("there is no split %q%s: choose one of %s as the split, or a path or "+
		"pattern of files", split, of, list(names))}
}

// within returns the paths in a directory, relative to it.
func within(paths []string, dir string) (inside []string) {
	for _, p := range paths {
		if rest, ok := strings.CutPrefix(p, dir); ok {
			inside = append(inside, rest)
		}
	}
	return inside
}

// Rules of names of files, as in data_files.py of Hugging Face's datasets.
var sharded = regexp.MustCompile(`^data/([^/]+)-\d{5}-of-\d{5}[^/]*\.[^/]*$`)

const separators = "-._ 0123456789"

// splitWords are the words for splits in names.
var splitWords = []declaredSplit{
	{"train", patterns{"train", "training"}},
	{"validation", patterns{"validation", "valid", "dev", "val"}},
	{"test", patterns{"test", "testing", "eval", "evaluation"}},
}

// byName returns the files in a directory that belong to a split by their names. It reports several directories that
// each have such a split: they are parts of the dataset that its card should tell apart.
func byName(paths []string, dir, split string) ([]string, error) {
	inside := within(paths, dir)
	splits, scope, err := namedSplits(inside)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(splits, func(s declaredSplit) bool { return s.Name == split })
	if at < 0 {
		of := ""
		if dir != "" {
			of = " in " + dir
		}
		return nil, noSplit(split, of, splits)
	}
	files, err := sameFormat(splits[at].Paths)
	if err != nil {
		return nil, err
	}
	scopes := map[string]bool{}
	for i, name := range files {
		scopes[scope(name)] = true
		files[i] = dir + name
	}
	if len(scopes) < 2 {
		return files, nil
	}
	var choices []string
	for _, name := range files {
		in := scope(name[len(dir):])
		if choice := path.Join(dir, in, split); !isAbove(in, scopes) {
			name = choice
		} // else the split of that name has the other directories' files too
		if !slices.Contains(choices, name) {
			choices = append(choices, name)
		}
		if len(choices) > maxChoices {
			break
		}
	}
	return nil, &SettingError{"split", fmt.Errorf("several directories have a split %q: choose one of %s as the split, "+
		"or %q for all files", split, list(choices), dir+"**")}
}

// maxChoices is the number of choices that an error lists.
const maxChoices = 20

// isAbove reports whether a directory holds another one of these.
func isAbove(dir string, others map[string]bool) bool {
	for other := range others {
		if dir == "." || strings.HasPrefix(other, dir+"/") {
			return true
		}
	}
	return false
}

// namedSplits returns the splits that names tell, each with its files as paths. scope returns the directory that has
// the split which a file belongs to.
func namedSplits(paths []string) (splits []declaredSplit, scope func(file string) string, err error) {
	data := slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return hidden(p, "**") || !isTable(p) })
	if len(data) == 0 {
		_, err := sameFormat(paths)
		return nil, nil, err
	}
	files := map[string]patterns{}
	for _, p := range data {
		if name := sharded.FindStringSubmatch(p); name != nil {
			files[name[1]] = append(files[name[1]], p)
		}
	}
	if len(files) > 0 {
		return inOrder(files), func(string) string { return "." }, nil
	}
	for _, dirs := range []bool{true, false} {
		scopes := map[string]string{}
		for _, p := range data {
			for _, s := range splitWords {
				if dir, found := wordIn(p, s.Paths, dirs); found {
					files[s.Name] = append(files[s.Name], p)
					scopes[p] = dir
				}
			}
		}
		if len(files) > 0 {
			return inOrder(files), func(file string) string { return scopes[file] }, nil
		}
	}
	return []declaredSplit{{"train", data}}, path.Dir, nil
}

// inOrder returns splits with the known ones first.
func inOrder(files map[string]patterns) (splits []declaredSplit) {
	for _, s := range splitWords {
		if files[s.Name] != nil {
			splits = append(splits, declaredSplit{s.Name, files[s.Name]})
			delete(files, s.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		splits = append(splits, declaredSplit{name, files[name]})
	}
	return splits
}

// wordIn reports whether a part of a path is one of the words, or has one between separators: the name of a directory,
// or else the name of the file, where a separator must follow. dir is the directory that this part is in.
func wordIn(file string, words []string, dirs bool) (dir string, found bool) {
	has := func(part, word string) bool {
		for from := 0; ; {
			i := strings.Index(part[from:], word)
			if i < 0 {
				return false
			}
			i += from
			end := i + len(word)
			if (i == 0 || strings.Contains(separators, part[i-1:i])) &&
				(end == len(part) && dirs || end < len(part) && strings.Contains(separators, part[end:end+1])) {
				return true
			}
			from = i + 1
		}
	}
	parts := strings.Split(file, "/")
	from, to := len(parts)-1, len(parts)
	if dirs {
		from, to = 0, len(parts)-1
	}
	for i := from; i < to; i++ {
		if slices.ContainsFunc(words, func(word string) bool { return has(parts[i], word) }) {
			return path.Join(append([]string{"."}, parts[:i]...)...), true
		}
	}
	return "", false
}

// formats are the formats of tables by extension, in the order that decides between equally frequent ones. Those with
// an empty name are not read.
var formats = []struct{ ext, format string }{
	{".parquet", "parquet"}, {".arrow", ""}, {".jsonl", "json"}, {".json", "json"}, {".csv", "csv"},
	{".zip", ""}, {".xml", ""}, {".txt", ""}, {".tsv", "tsv"}, {".tar", ""}, {".ndjson", "json"}, {".lance", ""},
	{".hdf5", ""}, {".h5", ""},
}

// extensionsOf returns the extensions in a file's name: of a.jsonl.gz, .jsonl and .gz.
func extensionsOf(file string) (found []string) {
	for i, part := range strings.Split(strings.ToLower(path.Base(file)), ".") {
		if i > 0 {
			found = append(found, "."+part)
		}
	}
	return found
}

// isTable reports whether a file's name says that it holds rows.
func isTable(file string) bool {
	return slices.ContainsFunc(extensionsOf(file), func(ext string) bool {
		return slices.ContainsFunc(formats, func(f struct{ ext, format string }) bool { return f.ext == ext })
	})
}

// errNoTable is the reason why a dataset has nothing to read.
var errNoTable = errors.New("the dataset has no parquet, JSONL, JSON or CSV file")

// sameFormat returns the files of the most frequent format, without repetitions.
func sameFormat(files []string) ([]string, error) {
	var unique []string
	seen, count := map[string]bool{}, map[string]int{}
	for _, file := range files {
		if seen[file] {
			continue
		}
		seen[file] = true
		unique = append(unique, file)
		for _, ext := range extensionsOf(file) {
			count[ext]++
		}
	}
	best := formats[0]
	for _, f := range formats {
		if count[f.ext] > count[best.ext] {
			best = f
		}
	}
	if count[best.ext] == 0 {
		return nil, fmt.Errorf("%w (it has %s): convert it, or name another", errNoTable, list(unique))
	}
	if best.format == "" {
		return nil, &SettingError{"split", fmt.Errorf("most files are %s, which is not read (%s): convert them to parquet "+
			"or JSONL, or name others as the split, such as \"*.jsonl\"", best.ext, list(unique))}
	}
	return slices.DeleteFunc(unique, func(file string) bool {
		return !slices.ContainsFunc(formats, func(f struct{ ext, format string }) bool {
			return f.format == best.format && slices.Contains(extensionsOf(file), f.ext)
		})
	}), nil
}

// ignored are files that describe a repository. A pattern names none of them unless it is one of them.
var ignored = []string{"README.md", "config.json", "dataset_info.json", "dataset_infos.json", "dummy_data.zip",
	"dataset_dict.json"}

// hidden reports whether a pattern leaves out a path that it matches: a file that describes the repository, one whose
// name or directory starts with a dot, or one in a directory that starts with two underscores, unless the pattern says
// so.
func hidden(p, pattern string) bool {
	count := func(p, prefix string) (n int) {
		for part := range strings.SplitSeq(p, "/") {
			if strings.HasPrefix(part, prefix) {
				n++
			}
		}
		return n
	}
	return slices.Contains(ignored, path.Base(p)) && path.Base(p) != path.Base(pattern) ||
		count(p, ".") != count(pattern, ".") || count(path.Dir(p), "__") != count(path.Dir(pattern), "__")
}

// hasMagic reports whether a path is a pattern.
func hasMagic(pattern string) bool { return strings.ContainsAny(pattern, "*?[") }

// matches returns the tables that a pattern names, in the order of paths: * and ? stand for characters other than a
// slash, [abc] for one of these, and ** between slashes for any directories.
func matches(paths []string, pattern string) (found []string, err error) {
	if strings.Contains(pattern, "://") || strings.HasPrefix(pattern, "/") || slices.Contains(strings.Split(pattern, "/"),
		"..") {
		return nil, fmt.Errorf("%q is not a path in the dataset: name files in it", pattern)
	}
	pattern = path.Clean(pattern)
	for part := range strings.SplitSeq(pattern, "/") {
		if strings.Contains(part, "**") && part != "**" {
			return nil, fmt.Errorf("the pattern %q has ** next to other characters: write **/ for any directories", pattern)
		}
	}
	expression := globPattern(pattern)
	for _, p := range paths {
		if expression.MatchString(p) && !hidden(p, pattern) && isTable(p) {
			found = append(found, p)
		}
	}
	return found, nil
}

// globPattern translates a pattern of paths.
func globPattern(pattern string) *regexp.Regexp {
	var b strings.Builder
	parts := strings.Split(pattern, "/")
	for i, part := range parts {
		last := i == len(parts)-1
		switch {
		case part == "**" && last:
			b.WriteString(".*")
		case part == "**":
			b.WriteString("(?:.+/)?")
		case part == "*" && last:
			b.WriteString("[^/]+")
		case part == "*":
			b.WriteString("[^/]+/")
		default:
			globPart(&b, part)
			if !last {
				b.WriteByte('/')
			}
		}
	}
	expression, err := regexp.Compile("^(?s:" + b.String() + ")$")
	if err != nil { // a range such as [z-a] matches nothing
		return regexp.MustCompile(`[^\s\S]`)
	}
	return expression
}

// globPart translates a pattern of one name.
func globPart(b *strings.Builder, part string) {
	for i := 0; i < len(part); i++ {
		switch c := part[i]; c {
		case '*':
			b.WriteString("[^/]*")
		case '?':
			b.WriteString("[^/]")
		case '[':
			set, not := strings.CutPrefix(part[i+1:], "!")
			end := strings.Index(set[min(1, len(set)):], "]") + 1 // a bracket that comes first is one of the characters
			if end < 1 {
				b.WriteString(`\[`)
				continue
			}
			i += len(part[i+1:]) - len(set) + end + 1
			set = strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, "^", `\^`).Replace(set[:end])
			if not {
				set = "^" + set
			}
			b.WriteString("[" + set + "]")
		default:
			b.WriteString(regexp.QuoteMeta(part[i : i+1]))
		}
	}
}
