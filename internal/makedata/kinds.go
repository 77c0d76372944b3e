package main

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"
)

//go:embed kinds/*.txtar
var kindFiles embed.FS

// A family is a file of kinds, kinds/NAME.txtar, and the Draws of those kinds by name.
type family struct {
	name   string
	unseen bool // its kinds are never in the training data: they have no ask section
	draws  map[string]func(d Draw) Slots
}

// families lists every file of kinds, in the order in which build processes them.
var families = []family{
	{name: "numbers", draws: numberDraws},
	{name: "loops", draws: loopDraws},
	{name: "conditions", draws: conditionDraws},
	{name: "functions", draws: functionDraws},
	{name: "recursion", draws: recursionDraws},
	{name: "conversions", draws: conversionDraws},
	{name: "formats", draws: formatDraws},
	{name: "errors", draws: errorDraws},
	{name: "algorithms", draws: algorithmDraws},
	{name: "strings", draws: stringDraws},
	{name: "lists", draws: listDraws},
	{name: "dicts", draws: dictDraws},
	{name: "classes", draws: classDraws},
	{name: "unseen_a", unseen: true, draws: unseenDrawsA},
	{name: "unseen_b", unseen: true, draws: unseenDrawsB},
}

// kinds returns every kind, in the order of families and of their files.
func kinds() ([]Kind, error) { return readKinds(kindFiles, families) }

func readKinds(files fs.FS, families []family) ([]Kind, error) {
	checks, err := beginnings(files)
	if err != nil {
		return nil, err
	}
	var all []Kind
	places := map[string]string{} // the place of each kind read so far
	for _, f := range families {
		list, err := sections(files, "kinds/"+f.name)
		if err != nil {
			return nil, err
		}
		kinds, err := f.read(list, checks, places)
		if err != nil {
			return nil, err
		}
		all = append(all, kinds...)
	}
	return all, nil
}

// beginnings returns the texts that a check.py may include, by name.
func beginnings(files fs.FS) (map[string]string, error) {
	list, err := sections(files, "kinds/checks")
	texts := map[string]string{}
	for _, s := range list {
		texts[s.name] = s.text
	}
	return texts, err
}

// A section is one file of a txtar archive, without the newlines around its text.
type section struct{ name, text, place string }

// sections reads a txtar archive, PATH.txtar.
func sections(files fs.FS, name string) ([]section, error) {
	path := name + ".txtar"
	text, err := fs.ReadFile(files, path)
	if err != nil {
		return nil, err
	}
	archive := txtar.Parse(text)
	line := 1 + bytes.Count(archive.Comment, []byte("\n"))
	places := map[string]string{}
	var list []section
	for _, file := range archive.Files {
		s := section{file.Name, strings.Trim(string(file.Data), "\n"), fmt.Sprintf("%s:%d", path, line)}
		if first, ok := places[s.name]; ok {
			return nil, fmt.Errorf("%s: section %s stands there twice, first at %s", s.place, s.name, first)
		}
		if s.text == "" {
			return nil, fmt.Errorf("%s: section %s is empty: fill it or leave it out", s.place, s.name)
		}
		places[s.name] = s.place
		list = append(list, s)
		line += 1 + bytes.Count(file.Data, []byte("\n"))
	}
	return list, nil
}

// read returns the family's kinds, made from the sections of its file.
func (f family) read(list []section, beginnings, places map[string]string) ([]Kind, error) {
	var kinds []Kind
	for _, s := range list {
		name, part, _ := strings.Cut(s.name, "/")
		if len(kinds) == 0 || kinds[len(kinds)-1].Name != name {
			if first, ok := places[name]; ok {
				return nil, fmt.Errorf("%s: kind %s stands there twice, first at %s", s.place, name, first)
			}
			if f.draws[name] == nil {
				return nil, fmt.Errorf("%s: kind %s has no Draw: add one to draw_%s.go", s.place, name, f.name)
			}
			places[name] = s.place
			kinds = append(kinds, Kind{Name: name, Draw: f.draws[name]})
		}
		if err := kinds[len(kinds)-1].set(part, s.text, beginnings); err != nil {
			return nil, fmt.Errorf("%s: section %s: %w", s.place, s.name, err)
		}
	}
	drawn := maps.Clone(f.draws)
	for _, kind := range kinds {
		delete(drawn, kind.Name)
		if err := f.complete(kind); err != nil {
			return nil, fmt.Errorf("%s: kind %s %w", places[kind.Name], kind.Name, err)
		}
	}
	if lost := slices.Sorted(maps.Keys(drawn)); len(lost) > 0 {
		return nil, fmt.Errorf("kinds/%s.txtar: no kind %s, whose Draw stands in draw_%s.go", f.name, lost[0], f.name)
	}
	return kinds, nil
}

// set stores the text of one section.
func (k *Kind) set(part, text string, beginnings map[string]string) (err error) {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	wrong := fmt.Sprintf("wrong%d.py", len(k.Wrong)+1)
	switch part {
	case "ask":
		k.Ask = lines
	case "held":
		k.Held = lines
	case "input":
		k.Input = text
	case "derived":
		k.Derived = lines
	case "code.py":
		k.Code = text
	case "check.py":
		k.Check, err = include(text, beginnings)
	case wrong:
		k.Wrong = append(k.Wrong, text)
	default:
		err = fmt.Errorf("unknown: a kind has ask, held, input, derived, code.py, check.py and, next, %s", wrong)
	}
	return err
}

// complete returns an error that names a section that a kind needs and lacks.
func (f family) complete(k Kind) error {
	missing := ""
	switch {
	case !f.unseen && k.Ask == nil:
		missing = "ask"
	case f.unseen && k.Ask != nil:
		return fmt.Errorf("has a section ask, but the kinds of this file are never trained")
	case k.Held == nil:
		missing = "held"
	case k.Code == "":
		missing = "code.py"
	case k.Check == "":
		missing = "check.py"
	default:
		return nil
	}
	return fmt.Errorf("has no section %s/%s", k.Name, missing)
}

var includePattern = regexp.MustCompile(`(?m)^#include (.*)$`)

// include replaces each line "#include NAME" with the beginning of that name.
func include(check string, beginnings map[string]string) (string, error) {
	var unknown error
	check = includePattern.ReplaceAllStringFunc(check, func(line string) string {
		name := strings.TrimPrefix(line, "#include ")
		text, ok := beginnings[name]
		if !ok {
			unknown = fmt.Errorf("it includes %q, which kinds/checks.txtar does not have", name)
		}
		return text
	})
	return check, unknown
}
