package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"restyle/hf"
	"restyle/infer"
	"restyle/infer/batch"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/internal/models"
	"restyle/model"
	"restyle/serve"
)

// moreRanks is how many ranks there is room for by default for adapters that are loaded while the server runs.
const moreRanks = 64

// A shared is a model whose weights adapters share.
type shared struct {
	*command
	name  string
	base  *hf.Checkpoint // stays open: adapters have its tokenizer, unless they have their own
	model *model.Model
	batch *batch.Batch
}

// A guest is an adapter that is to share a model's weights, and how many columns it takes.
type guest struct {
	modelRef
	*hf.Adapter
	width int
}

// host loads the first model, and the adapters that share its weights. It returns those that cannot.
func (l *loader) host(ctx context.Context, ref modelRef) (alone []modelRef, err error) {
	s := &shared{command: l.command, name: ref.name}
	s.base, err = models.Open(ctx, l.hub, ref.path)
	if errors.Is(err, hf.ErrAdapter) {
		return nil, cli.Usagef("%s %w: name its base as the first model, and this as --adapter NAME=%[1]s", ref.path,
			hf.ErrAdapter)
	}
	if err != nil {
		return nil, err
	}
	l.opened = append(l.opened, s.base.Close)
	var guests []guest
	var widths []int
	for _, g := range l.guests {
		a, err := models.OpenAdapter(ctx, l.hub, g.path)
		if err != nil {
			return nil, err
		}
		if a == nil {
			alone = append(alone, g)
			continue
		}
		defer a.Close()
		note, err := models.CheckBase(a, s.base)
		if err != nil {
			return nil, otherBase(g, err)
		}
		width, err := infer.AdapterWidth(s.base, infer.Quantizations[l.quantize], a)
		if err != nil {
			fmt.Fprintf(l.notes, "%s: with weights of its own: %v\n", g.name, err)
			alone = append(alone, g)
			continue
		}
		if note != "" {
			fmt.Fprintf(l.notes, "%s: %s\n", g.name, note)
		}
		guests, widths = append(guests, guest{g, a, width}), append(widths, width)
	}
	room, err := l.room(widths)
	if err != nil {
		return nil, err
	}
	l.engines += len(alone)
	engine, b, err := l.add(ctx, ref, s.base, nil, room)
	if err != nil {
		return nil, err
	}
	s.model, s.batch, l.shared = engine.Model, b, s
	for _, g := range guests {
		m, err := s.attach(g)
		m.Drop = nil // what the operator gave stays
		if err == nil {
			err = l.server.Add(m)
		}
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(l.notes, "%s: %s on %s, rank %d of %d\n", g.name, g.path, ref.name, g.width, room)
	}
	return alone, nil
}

// room returns how many columns there are for adapters.
func (c *command) room(widths []int) (int, error) {
	if c.adapterRanks == 0 && c.adapterDir != "" {
		widths = append(widths, moreRanks)
	}
	room := model.AdapterRoom(c.adapterRanks, widths...)
	if c.adapterRanks > 0 && room-c.adapterRanks >= 16 { // it is rounded up to a multiple of 16
		return 0, cli.Usagef("--adapter-ranks %d: the adapters do not fit there: the next number with room for them is %d",
			c.adapterRanks, room)
	}
	return room, nil
}

// attach loads an adapter next to the others.
func (s *shared) attach(g guest) (m serve.Model, err error) {
	c, err := g.On(s.base) // which needs no Close: its weights are the base's
	if err != nil {
		return m, err
	}
	c.Name = g.Name // in errors that a client gets; the base's is a path of this machine
	codec, err := infer.CodecOf(c, s.template)
	if err != nil {
		return m, err
	}
	factors, err := g.Factors()
	if err != nil {
		return m, err
	}
	digest, err := s.digest(s.base, g.Adapter)
	if err != nil {
		return m, err
	}
	place := func(taken []model.Columns) (model.Columns, bool) { return s.model.PlaceAdapter(g.width, taken) }
	set := func(at model.Columns) error {
		err := s.model.SetAdapter(at, factors)
		if err != nil && s.model.Device().Err() != nil {
			return &batch.Fault{What: "storing the adapter", Why: err}
		}
		return err
	}
	a, err := s.batch.Attach(codec, digest, place, set)
	if err != nil {
		return m, fmt.Errorf("adapter %s: %w", g.Name, err)
	}
	return serve.Model{Name: g.name, Codec: codec, Context: s.batch.Context(), Digest: digest, Parent: s.name,
		Drop: a.Drop, Generator: serve.BatchAdapter(a)}, nil
}

// loadAdapter loads an adapter that a client names by its path, which must be in --adapter-dir, and so must
// what its links lead to.
func (c *command) loadAdapter(_ context.Context, name, path string) (m serve.Model, err error) {
	s, inside := c.shared, path
	if filepath.IsAbs(path) {
		root, err := filepath.Abs(c.adapterDir)
		if err == nil {
			inside, err = filepath.Rel(root, path)
		}
		if err != nil {
			return m, errors.New("no such directory in --adapter-dir")
		}
	}
	if info, err := s.dir.Stat(inside); err != nil || !info.IsDir() {
		return m, errors.New("no such directory in --adapter-dir") // what is elsewhere is no client's business
	}
	a, err := hf.OpenAdapterFS(rootFS{s.dir, inside}, name)
	if err != nil {
		return m, err
	}
	defer a.Close()
	note, err := models.CheckBase(a, s.base)
	if errors.Is(err, models.ErrOtherBase) {
		return m, fmt.Errorf("adapter %s %w than %s", name, models.ErrOtherBase, s.name)
	}
	if err != nil {
		return m, err
	}
	width, err := infer.AdapterWidth(s.base, infer.Quantizations[c.quantize], a)
	if err != nil {
		return m, err
	}
	m, err = s.attach(guest{modelRef{name: name}, a, width})
	if err == nil && note != "" {
		fmt.Fprintf(c.notes, "%s: %s\n", name, note)
	}
	return m, err
}

// A rootFS has the regular files of a directory in root, also those elsewhere in root that links lead to.
type rootFS struct {
	root *os.Root
	dir  string
}

// Open implements fs.FS. The name is not joined as text, because a part of dir may be a link, with .. after it.
func (r rootFS) Open(name string) (fs.File, error) { return disk.OpenInputIn(r.root, r.dir+"/"+name) }

// ReadDir implements fs.ReadDirFS: an adapter's further chat templates are in a directory.
func (r rootFS) ReadDir(name string) ([]fs.DirEntry, error) {
	return disk.ReadDirIn(r.root, r.dir+"/"+name)
}
