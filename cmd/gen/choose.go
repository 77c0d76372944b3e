package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"restyle/dataset"
	"restyle/internal/cli"
	"restyle/internal/secret"
	"restyle/teacher"
	"restyle/teacher/openai"
)

// pickTeacher returns the teacher that the flags name. If it is a server, pickTeacher checks that it answers and has
// the model.
func (g *gen) pickTeacher(ctx context.Context) (teacher.Teacher, error) {
	kind := g.options.teacher
	if g.home.given() {
		kind = "openai"
		g.baseURLs = cli.List{homeURL}
	}
	if kind == "auto" {
		kind = "builtin"
		if len(g.baseURLs) > 0 || g.model != "" {
			kind = "openai"
		}
	}
	batch := g.emit != "" || g.ingest != ""
	if kind == "builtin" {
		if batch {
			return nil, cli.Usagef("a batch needs a model that answers it: set --model")
		}
		if !g.key.Empty() && g.options.teacher == "auto" {
			g.say("OPENAI_API_KEY is set, but no model: using the built-in rewriter. " +
				"To use the key, set --model, and --base-url if the server is not OpenAI's.")
		}
		if !g.rowsGiven {
			g.rows = builtinRows
		}
		return teacher.Builtin{}, nil
	}
	if len(g.baseURLs) == 0 && !batch {
		if g.model == "" {
			return nil, cli.Usagef("--teacher openai: needs --model, and --base-url if the server is not OpenAI's")
		}
		g.baseURLs = cli.List{"https://api.openai.com/v1"}
	}
	if batch && g.model == "" {
		return nil, cli.Usagef("a batch needs a model that answers it: set --model")
	}
	g.remote = &teacher.Remote{Model: g.model, Temperature: g.temperature, MaxTokens: g.maxTokens,
		FoldSystem: g.foldSystem}
	if g.key.In(g.extra) {
		return nil, cli.Usagef("--extra: contains OPENAI_API_KEY, which gen sends in a header of every request: leave it out")
	}
	if g.extra != "" {
		if err := json.Unmarshal([]byte(g.extra), &g.remote.Extra); err != nil {
			return nil, cli.Usagef("--extra: %v", err)
		}
	}
	if batch {
		return g.remote, nil
	}
	if g.home.given() && !g.dryRun {
		var err error
		if g.own, err = g.startHome(ctx); err != nil {
			return nil, err
		}
		g.baseKey, g.model = g.own.key, g.own.model
	}
	pool, model, err := g.connect(ctx, g.baseURLs, g.baseKey, g.model)
	if err != nil {
		return nil, err
	}
	g.remote.Pool, g.remote.Model = pool, model
	for _, e := range pool.Stats().Endpoints {
		g.remote.Endpoints = append(g.remote.Endpoints, e.URL)
	}
	return g.remote, nil
}

// connect opens a pool and asks its servers for their models. If model is empty, connect takes the only one there is.
func (g *gen) connect(
	ctx context.Context, urls []string, key secret.Secret, model string,
) (*openai.Pool, string, error) {
	socket := ""
	if g.own != nil && slices.Equal(urls, g.baseURLs) {
		socket = g.own.socket
	}
	pool, err := openai.New(openai.Options{
		BaseURLs: urls, Socket: socket, APIKey: key, Concurrency: g.concurrency, Retries: retriesOption(g.retries),
		ConnectTimeout: g.connectTimeout, FirstTokenTimeout: g.firstTimeout, StallTimeout: g.stallTimeout,
		TotalTimeout: g.totalTimeout, DeadTimeout: g.deadTimeout, MaxAnswerBytes: 4 << 20,
	})
	if err != nil {
		return nil, "", cli.Usagef("%w", err)
	}
	if g.dryRun {
		model = cmp.Or(model, g.home.model, "the-only-model-there")
		return pool, model, nil
	}
	lists, err := pool.Models(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("no server can be used: %w", err)
	}
	var served []string
	unknown := false
	for _, l := range lists {
		switch {
		case l.Err != nil:
			g.say("warning: not using %s for now: %v", l.Endpoint, l.Err)
		case l.Missing:
			unknown = true
		default:
			served = append(served, l.Models...)
			if model != "" && !slices.ContainsFunc(l.Models, func(id string) bool { return bare(id) == bare(model) }) {
				return nil, "", fmt.Errorf("model %q: %s does not have it: choose one of %s", model, l.Endpoint, shorten(l.Models))
			}
		}
	}
	if model != "" {
		return pool, model, nil
	}
	slices.Sort(served)
	served = slices.Compact(served)
	switch {
	case len(served) == 1:
		return pool, served[0], nil
	case unknown || len(served) == 0:
		return nil, "", cli.Usagef("%s does not list its models: name one with --model", strings.Join(urls, " and "))
	}
	return nil, "", cli.Usagef("several models: name one with --model: %s", shorten(served))
}

// bare returns the id of a model without the parts that servers let users leave out: Google's "models/", Ollama's
// ":latest".
func bare(id string) string {
	id, _, _ = strings.Cut(strings.TrimPrefix(strings.ToLower(id), "models/"), ":")
	return id
}

// retriesOption returns n for [openai.Options], where 0 means the default and -1 none.
func retriesOption(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// shorten joins the first 8 names of a list.
func shorten(list []string) string {
	if len(list) > 8 {
		return strings.Join(list[:8], ", ") + fmt.Sprintf(" and %d more", len(list)-8)
	}
	return strings.Join(list, ", ")
}

// pickJudge returns the judge that the flags name.
func (g *gen) pickJudge(ctx context.Context) (*teacher.Judge, error) {
	urls, key := []string(g.judgeURLs), g.key
	if len(urls) == 0 {
		urls, key = g.baseURLs, g.baseKey
	}
	if len(urls) == 0 {
		return nil, cli.Usagef("--judge %s: needs a server: set --judge-url", g.judge)
	}
	pool, model, err := g.connect(ctx, urls, key, g.judge)
	if err != nil {
		return nil, fmt.Errorf("judge: %w", err)
	}
	judge := &teacher.Judge{
		Remote:  teacher.Remote{Pool: pool, Model: model, MaxTokens: 512, FoldSystem: g.foldSystem},
		MinTone: g.minTone,
	}
	for _, e := range pool.Stats().Endpoints {
		judge.Endpoints = append(judge.Endpoints, e.URL)
	}
	return judge, nil
}

// maxLooked is how many rows of the sources chooseLanguage looks at.
const maxLooked = 1000

// chooseLanguage has answers in prose restated if none of the first rows has code and no language is given. The
// built-in rewriter keeps such answers as they are, and needs a style that can write around them.
func (g *gen) chooseLanguage(ctx context.Context) error {
	found := ""
	switch {
	case g.languageGiven:
	case slices.Equal(g.sources, []string{dataset.StarterSpec}): // some of its answers are in words
		if g.remote != nil || g.voice.KeepsAnswers() {
			g.language = teacher.NoLanguage
		}
	default:
		n, err := g.proseRows(ctx)
		if err != nil {
			return err
		}
		if n > 0 {
			g.language = teacher.NoLanguage
			found = fmt.Sprintf("no code in %s of %s", cli.Count(n, "row"), strings.Join(g.sources, " and "))
		}
	}
	switch {
	case g.language != teacher.NoLanguage:
		return nil
	case g.remote == nil && !g.voice.KeepsAnswers():
		return cli.Usagef("%s: in this style the built-in rewriter only writes around code: add skeletons with answer to "+
			"the style or, to have a model restate prose, set --base-url http://HOST/v1 (and --model), or --model alone for "+
			"OpenAI's", cmp.Or(found, "--language none"))
	case g.remote == nil && found != "":
		g.say("language    none: %s, so the built-in rewriter keeps each answer and writes around it; a model restates it",
			found)
	case found != "":
		g.say("language    none: %s, so gen has the prose restated and its facts checked", found)
	}
	return nil
}

// proseRows returns how many rows it looked at, or 0 if one of them has code. It leaves rows that cannot be read to
// the run.
func (g *gen) proseRows(ctx context.Context) (int, error) {
	src, err := g.open(ctx, g.sources...)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	n := 0
	for n < maxLooked {
		row, err := src.Next()
		if bad, ok := errors.AsType[*dataset.BadRow](err); ok && bad.Skipped {
			continue
		}
		if err != nil {
			break
		}
		if teacher.HasCode(row.Output) {
			return 0, nil
		}
		n++
	}
	return n, context.Cause(ctx)
}

// sayProse says what to do with rows that were refused because they have no code.
func (g *gen) sayProse(rows int) {
	if rows > 0 {
		g.say("%s without code: --language none has a model restate prose as well", cli.Count(rows, "row"))
	}
}
