package dataset

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A declaredConfig is an entry of configs in a dataset's card: a part of the dataset with splits of its own.
type declaredConfig struct {
	Name    string               `yaml:"config_name"`
	Dir     string               `yaml:"data_dir"`
	Files   yaml.Node            `yaml:"data_files"`
	Default bool                 `yaml:"default"`
	Others  map[string]yaml.Node `yaml:",inline"`
}

// A declaredSplit is a split and the patterns of its files.
type declaredSplit struct {
	Name  string   `yaml:"split"`
	Paths patterns `yaml:"path"`
}

// patterns are one pattern, or a list of them.
type patterns []string

// UnmarshalYAML reads either form.
func (p *patterns) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*p = patterns{n.Value}
		return nil
	}
	return n.Decode((*[]string)(p))
}

// readingKeys are keys of a config that say how its files are read. To read them in another way would change the rows.
var readingKeys = []string{"sep", "delimiter", "names", "column_names", "header", "skiprows", "skipfooter", "nrows",
	"usecols", "index_col", "quotechar", "quoting", "escapechar", "comment", "encoding", "field", "columns", "filters"}

// frontMatter is the YAML at the start of a card.
var frontMatter = regexp.MustCompile(`^\x{FEFF}?\s*---(?:\r\n|\r|\n)([\s\S]*?)(?:\r\n|\r|\n)---[ \t]*(?:\r|\n|$)`)

// parseCard returns the configs that a dataset's card declares, none if it declares none.
func parseCard(card string) ([]declaredConfig, error) {
	head := frontMatter.FindStringSubmatch(card)
	if head == nil {
		return nil, nil
	}
	return parseConfigs(head[1])
}

// parseConfigs reads the configs of YAML.
func parseConfigs(text string) ([]declaredConfig, error) {
	var card struct {
		Configs []declaredConfig `yaml:"configs"`
	}
	if err := yaml.Unmarshal([]byte(text), &card); err != nil {
		said := strings.ReplaceAll(err.Error(), "\n", " ")
		if wrong, is := errors.AsType[*yaml.TypeError](err); is {
			said, _, _ = strings.Cut(wrong.Errors[0], " into ") // a type of Go
		}
		return nil, fmt.Errorf("its YAML cannot be read (%.200s)", said)
	}
	for i, c := range card.Configs {
		if c.Name == "" {
			return nil, fmt.Errorf("entry %d of configs has no config_name", i)
		}
		if slices.ContainsFunc(card.Configs[:i], func(d declaredConfig) bool { return d.Name == c.Name }) {
			return nil, fmt.Errorf("two entries of configs have the config_name %q", c.Name)
		}
	}
	return card.Configs, nil
}

// splits returns the splits of a config in the card's order, nil if it names no files.
func (c *declaredConfig) splits() ([]declaredSplit, error) {
	for _, key := range readingKeys {
		if _, set := c.Others[key]; set {
			return nil, fmt.Errorf("the config %q sets %s, which is not supported: convert its files to JSONL", c.Name, key)
		}
	}
	if c.Files.IsZero() {
		return nil, nil
	}
	var paths patterns
	if c.Files.Decode(&paths) == nil {
		return []declaredSplit{{"train", paths}}, nil
	}
	var splits []declaredSplit
	if err := c.Files.Decode(&splits); err != nil {
		return nil, fmt.Errorf("data_files of the config %q must be a path, a list of paths, or a list of split and path",
			c.Name)
	}
	for i, s := range splits {
		switch {
		case s.Name == "" || len(s.Paths) == 0:
			return nil, fmt.Errorf("entry %d of data_files of the config %q lacks split or path", i, c.Name)
		case slices.ContainsFunc(splits[:i], func(d declaredSplit) bool { return d.Name == s.Name }):
			return nil, fmt.Errorf("the config %q has two entries of the split %q", c.Name, s.Name)
		}
	}
	return splits, nil
}

// configError says that the name of a config is missing or wrong.
type configError struct {
	name  string
	names []string
}

func (e *configError) Error() string {
	if e.name == "" {
		return fmt.Sprintf("the dataset has several configs, %s: name one", list(e.names))
	}
	return fmt.Sprintf("there is no config %q: name one of %s", e.name, list(e.names))
}

// pickConfig returns the config of that name, or the default one if name is empty.
func pickConfig(configs []declaredConfig, name string) (*declaredConfig, error) {
	var names []string
	var fallback *declaredConfig
	for i := range configs {
		c := &configs[i]
		names = append(names, c.Name)
		if c.Name == name {
			return c, nil
		}
		if len(configs) > 1 && !c.Default && c.Name != "default" {
			continue
		}
		if fallback != nil && name == "" {
			return nil, fmt.Errorf("both the config %q and %q are the default: name one: %w", fallback.Name, c.Name,
				&configError{"", []string{fallback.Name, c.Name}})
		}
		fallback = c
	}
	if name != "" || fallback == nil {
		return nil, &configError{name, names}
	}
	return fallback, nil
}
