package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"restyle/data"
	"restyle/hf"
	"restyle/internal/models"
	"restyle/trainer"
)

// defaults returns the defaults that depend on the model of the command line, or on its preset, as the help shows
// them. What is wrong with either, only a run reports.
func (o *options) defaults() map[string]string {
	shown := map[string]string{}
	general := map[string]string{}
	for _, f := range append(o.config.Fields(), o.fields()...) {
		general[f.Name] = fmt.Sprint(f.Default)
	}
	switch {
	case o.fromScratch != "":
		config, err := readShape(o.fromScratch)
		if err != nil {
			break
		}
		c, err := hf.NewModel(map[string][]byte{"config.json": config})
		if err != nil {
			break
		}
		values, _ := trainer.Suited(c, true, o.config.Adapts())
		for name, value := range values {
			shown[name] = value + " for this new model"
		}
	case o.model == data.StarterName:
		starter, small := starterRecipe(), trainer.SmallRecipe()
		for name, value := range general {
			text := value + " for other models"
			if v := small[name]; v != "" {
				text = fmt.Sprintf("%s for %s, %s", v, trainer.SmallModels, text)
			}
			if v := starter[name]; v != "" {
				text = fmt.Sprintf("%s for %s, %s", v, data.StarterName, text)
			}
			if starter[name]+small[name] != "" {
				shown[name] = text
			}
		}
	}
	for name, value := range presets[o.preset] {
		shown[name] = value + " with --preset " + o.preset
	}
	return shown
}

// starterRecipe returns the settings that suit the embedded model; none if it is not in this build.
func starterRecipe() map[string]string {
	c, err := models.Open(context.Background(), nil, data.StarterName)
	if err != nil {
		return nil
	}
	defer c.Close()
	recipe, err := trainer.Suited(c, false, false)
	if err != nil {
		return nil
	}
	return recipe
}

// readShape reads the config of a new model: a config.json, or the one in a directory.
func readShape(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "config.json")
	}
	config, err := fs.ReadFile(hf.DirFS(filepath.Dir(path)), filepath.Base(path))
	if err != nil {
		return nil, fmt.Errorf("--from-scratch: %w: give a config.json, or its directory", err)
	}
	return config, nil
}
