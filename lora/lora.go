// Package lora describes the low-rank adapters of a model (Hu et al. 2021): to the output of a linear layer W x they
// add s·B(A x), where A is [rank, in] and B [out, rank], and only A and B are trained. It follows PEFT 0.21 in which
// modules a configuration names, and in the rank and the scale s of each.
package lora

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Spec describes which modules of a model get an adapter, and of what rank and scale. Modules have their Hugging
// Face names, such as "model.layers.0.self_attn.q_proj". The zero value means that there are none.
type Spec struct {
	// Rank is the number of rows of A; 0: no adapters.
	Rank int
	// Alpha makes the scale s = Alpha / Rank.
	Alpha float64
	// RSLoRA makes the scale Alpha / √Rank instead.
	RSLoRA bool
	// Dropout is the probability that an element of an adapter's input is set to 0 in training.
	Dropout float64
	// Targets are the linear layers that get an adapter, except those that Exclude or Also names.
	Targets, Exclude Targets
	// Layers are the indices of the layers that get adapters, for Targets.Names and Targets.AllLinear. Default nil: all.
	Layers []int
	// Ranks and Alphas are the ranks and alphas of some modules; the first pattern that matches counts. The scale is
	// computed from a module's own rank and alpha.
	Ranks, Alphas []Pattern
	// Also lists modules that are trained and saved whole.
	Also []string
}

// Targets are modules, named in one of three ways. The zero value names none.
type Targets struct {
	// Names are the names of modules, or the ends of these names after a dot.
	Names []string
	// Match is a regular expression for the whole name.
	Match string
	// AllLinear means all linear layers in the model's layers, which excludes the head, lm_head.
	AllLinear bool
}

// A Pattern is a value for the modules whose name, or its end after a dot, the regular expression Key matches.
type Pattern struct {
	Key   string
	Value float64
}

// Default returns rank 16, alpha 32, and adapters on all linear layers except the head.
func Default() Spec { return Spec{Rank: 16, Alpha: 32, Targets: Targets{AllLinear: true}} }

// Of returns the rank and the scale of the adapter of a linear layer, such as "model.layers.0.self_attn.q_proj". ok is
// false if it has none.
func (s Spec) Of(module string) (rank int, scale float64, ok bool) {
	if s.Rank == 0 || s.Exclude.has(module) || s.whole(module) || !s.Targets.has(module) || !s.inLayers(module) {
		return 0, 0, false
	}
	rank, alpha := int(valueOf(s.Ranks, module, float64(s.Rank))), valueOf(s.Alphas, module, s.Alpha)
	if s.RSLoRA {
		return rank, alpha / math.Sqrt(float64(rank)), true
	}
	return rank, alpha / float64(rank), true
}

// Whole reports whether a parameter, such as "lm_head.weight", belongs to a module of Also.
func (s Spec) Whole(param string) bool {
	at := strings.LastIndexByte(param, '.')
	return at >= 0 && s.whole(param[:at])
}

func (s Spec) whole(module string) bool {
	return slices.ContainsFunc(s.Also, func(name string) bool { return within(module, name) })
}

// within reports whether a module is one that name names, or a part of it.
func within(module, name string) bool { return strings.Contains("."+module+".", "."+name+".") }

// firstIndex finds the index of a module's layer.
var firstIndex = regexp.MustCompile(`^.*?\.[^.]*\.(\d+)\.`)

func (s Spec) inLayers(module string) bool {
	if len(s.Layers) == 0 || slices.Contains(s.Targets.Names, module) {
		return true
	}
	found := firstIndex.FindStringSubmatch(module)
	if found == nil {
		return false
	}
	layer, err := strconv.Atoi(found[1])
	return err == nil && slices.Contains(s.Layers, layer)
}

// Idle returns a part of s, in the form of String, that matches none of a model's modules, its linear layers: a part
// of Exclude or Layers, or a pattern. It returns "" if there is no such part.
func (s Spec) Idle(modules []string) string {
	some := func(s Spec) bool {
		return slices.ContainsFunc(modules, func(module string) bool {
			_, _, ok := s.Of(module)
			return ok
		})
	}
	for _, name := range s.Exclude.Names {
		one := Targets{Names: []string{name}}
		if !some(Spec{Rank: 1, Targets: one}) {
			return Spec{Exclude: one}.String()
		}
	}
	if one := (Targets{Match: s.Exclude.Match}); one.Match != "" && !some(Spec{Rank: 1, Targets: one}) {
		return Spec{Exclude: one}.String()
	}
	for _, layer := range s.Layers {
		one := Spec{Rank: 1, Targets: s.Targets, Layers: []int{layer}}
		if !some(one) {
			return Spec{Layers: one.Layers}.String()
		}
	}
	for _, p := range s.Ranks {
		if !p.counts(s, modules) {
			return Spec{Ranks: []Pattern{p}}.String()
		}
	}
	for _, p := range s.Alphas {
		if !p.counts(s, modules) {
			return Spec{Alphas: []Pattern{p}}.String()
		}
	}
	return ""
}

// counts reports whether a pattern matches one of the modules that s gives an adapter.
func (p Pattern) counts(s Spec, modules []string) bool {
	return slices.ContainsFunc(modules, func(module string) bool {
		_, _, ok := s.Of(module)
		return ok && valueOf([]Pattern{{p.Key, 1}}, module, 0) == 1
	})
}

func (t Targets) has(module string) bool {
	switch {
	case t.AllLinear:
		return strings.Contains(module, ".layers.") || strings.Contains(module, ".h.") // not the head, nor an embedding
	case t.Match != "":
		re, err := compile(t.Match, "")
		return err == nil && re.MatchString(module)
	}
	return slices.ContainsFunc(t.Names, func(name string) bool {
		return module == name || strings.HasSuffix(module, "."+name)
	})
}

func (t Targets) empty() bool { return len(t.Names) == 0 && t.Match == "" && !t.AllLinear }

func valueOf(patterns []Pattern, module string, otherwise float64) float64 {
	for _, p := range patterns {
		if re, err := compile(p.Key, `(?:.*\.)?`); err == nil && re.MatchString(module) {
			return p.Value
		}
	}
	return otherwise
}

// differently matches the parts of regular expressions that only Go understands, or that mean something else to
// Python.
var differently = regexp.MustCompile(`\[:|\{,|\\[zpPQEC]|\(\?[a-z]*U|\(\?<[A-Za-z_]`)

// maxExpression and maxPatterns limit what compiling takes: 7 bytes, such as a{1000}, make a thousand instructions.
const maxExpression, maxPatterns = 1000, 1000

// compile compiles a Python regular expression that matches a whole name after a prefix.
func compile(expr, prefix string) (*regexp.Regexp, error) {
	if len(expr) > maxExpression {
		return nil, fmt.Errorf("the regular expression %.40q has %d bytes: at most %d are supported", expr, len(expr),
			maxExpression)
	}
	if found := differently.FindString(expr); found != "" {
		return nil, fmt.Errorf("the regular expression %.40q has %q, which Go and Python read differently: write it "+
			"in another way", expr, found)
	}
	if _, err := regexp.Compile(expr); err != nil { // by itself: a ) too many must not end the group below
		why := err.Error()
		if syntax := errors.Unwrap(err); syntax != nil {
			why = syntax.Error()
		}
		return nil, fmt.Errorf("the regular expression %.40q: %.60s: look-around and back-references are not supported: "+
			"list the modules instead", expr, strings.TrimPrefix(why, "error parsing regexp: "))
	}
	return regexp.Compile(`\A` + prefix + `(?:` + expr + `)\z`)
}

// Validate returns an error if a value is impossible or a regular expression is not supported.
func (s Spec) Validate() error {
	if s.Rank == 0 && s.String() == none {
		return nil
	}
	switch {
	case s.Rank < 1 || s.Rank > maxRank:
		return fmt.Errorf("rank %d: must be 1 to %d", s.Rank, maxRank)
	case !positive(s.Alpha):
		return fmt.Errorf("alpha %v: must be positive", s.Alpha)
	case !(s.Dropout >= 0 && s.Dropout < 1):
		return fmt.Errorf("dropout %v: must be at least 0 and less than 1", s.Dropout)
	case s.Targets.empty():
		return errors.New("no targets: name the modules that get an adapter, or all linear layers")
	case s.Targets.Match != "" && len(s.Layers) > 0:
		return errors.New("layers with a regular expression as the target: put the layers into the expression")
	case s.Exclude.AllLinear:
		return errors.New("exclude is all linear layers: none would have an adapter")
	}
	for _, n := range []int{len(s.Targets.Names), len(s.Exclude.Names), len(s.Layers), len(s.Also)} {
		if n > maxNames {
			return fmt.Errorf("a list of %d modules or layers: at most %d are supported", n, maxNames)
		}
	}
	for _, layer := range s.Layers {
		if layer < 0 {
			return fmt.Errorf("layer %d: must not be negative", layer)
		}
	}
	for _, t := range []Targets{s.Targets, s.Exclude} {
		if err := t.validate(); err != nil {
			return err
		}
	}
	if slices.Contains(s.Also, "") {
		return errors.New("a module to be trained whole has the empty name")
	}
	for _, p := range s.Ranks {
		if p.Value < 1 || p.Value > maxRank || p.Value != math.Trunc(p.Value) {
			return fmt.Errorf("rank %v of %.40q: must be a whole number from 1 to %d", p.Value, p.Key, maxRank)
		}
	}
	for _, p := range s.Alphas {
		if !positive(p.Value) {
			return fmt.Errorf("alpha %v of %.40q: must be positive", p.Value, p.Key)
		}
	}
	return errors.Join(validate("rank", s.Ranks), validate("alpha", s.Alphas))
}

// validate checks the keys of patterns. A key that occurs twice would count once: in JSON, the last of the two.
func validate(what string, patterns []Pattern) error {
	if len(patterns) > maxPatterns {
		return fmt.Errorf("%d patterns of %s: at most %d are supported", len(patterns), what, maxPatterns)
	}
	seen := map[string]bool{}
	for _, p := range patterns {
		if seen[p.Key] {
			return fmt.Errorf("%s of %.40q is there twice", what, p.Key)
		}
		seen[p.Key] = true
		if _, err := compile(p.Key, ""); err != nil {
			return err
		}
	}
	return nil
}

const (
	maxRank  = 1 << 16 // more than any matrix that is worth an adapter has
	maxNames = 1 << 12 // more than any model has modules with adapters
)

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 1) }

func (t Targets) validate() error {
	if slices.Contains(t.Names, "") {
		return errors.New("a module has the empty name")
	}
	if t.Match == "" {
		return nil
	}
	_, err := compile(t.Match, "")
	return err
}
