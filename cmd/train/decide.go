package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"restyle/kernels"
	"restyle/kernels/cpu"
	"restyle/model"
	"restyle/tensor"
	"restyle/trainer"
)

// openDevice opens the device, and decides what depends on it. A run that goes on, which was so, keeps the instruction set that it
// began with where the machine has it.
func (t *train) openDevice(was record) (err error) {
	level := was.Decisions["cpu"]
	if _, missing := cpu.ParseLevel(level); missing != nil {
		if t.sameBits {
			return fmt.Errorf("--same-bits: this machine lacks what the run was begun with (%w): go on on one that has it, or without --same-bits", missing)
		}
		t.note("this machine lacks what the run was begun with: it goes on, but not with the same bits (%v)", missing)
		level = ""
	}
	t.device, err = kernels.Open(t.deviceName, kernels.Options{Threads: t.threads, Fused: t.fused.Fused, Sync: t.sync, Level: level, Deterministic: t.deterministic, NoBF16: t.settings.DType == tensor.F32})
	if err != nil {
		return err
	}
	for _, n := range t.device.Notes() {
		t.note("%s", n)
	}
	if err := t.sameDevice(was); err != nil {
		return errors.Join(err, t.device.Close())
	}
	t.decide(was)
	t.process = int(peakMemory()) + buffers + cpu.Threads()*cpu.GemmWorkspace()
	t.memory = trainer.MemoryOf(t.device, t.device.Fused(), t.origin.Config, t.settings, t.plan)
	what := "the program, data and buffers"
	if !t.device.IsCPU() { // where those lie elsewhere
		what, t.process = "the driver and its code", t.device.Overhead()
	}
	t.memory.Parts = append(t.memory.Parts, trainer.Part{What: what, Bytes: t.process})
	return nil
}

// sameDevice says if a run was begun on another device: on the CPU, another GPU, or one with other matrix products. If not, it keeps
// the algorithms of its products.
func (t *train) sameDevice(was record) error {
	before, now := cmp.Or(was.Decisions["gpu"], "the CPU"), cmp.Or(t.device.Model(), "the CPU")
	if then := was.Decisions[products]; before == now && then != "" { // runs of before took the first algorithm of each, and did not say of what
		before, now = then, t.device.Products()
	}
	switch {
	case was.Decisions == nil:
		return nil
	case before == now:
		t.device.KeepChoices(choicesOf(was.Decisions))
		return nil
	case t.sameBits:
		return fmt.Errorf("--same-bits: the run was begun on %s, and this is %s: give the --device that it was begun on, or leave --same-bits out", before, now)
	}
	t.note("the run was begun on %s: it goes on on %s, but not with the same bits", before, now)
	return nil
}

// decide chooses what depends on the device and decides bits: how many tokens go through the model at once, up to how many passes are
// filled, how many tokens go through the head, and the type of gradients. A run that goes on keeps what it began with.
func (t *train) decide(was record) {
	capacity := t.device.Capacity()
	if capacity > 0 && t.maxMemory > 0 {
		capacity = min(capacity, int(t.maxMemory)) // as of a GPU that has no more
	}
	if n, _ := fmt.Sscanf(was.Decisions["logits"], logitsIn, &t.settings.HeadBytes); n != 1 && capacity > 0 {
		t.settings.HeadBytes = model.HeadBytes(capacity)
	}
	t.settings.Fill = capacity > 0 && (was.Decisions["gpu"] == "" || was.Decisions["rows"] != "")
	var passes int
	if n, _ := fmt.Sscanf(was.Decisions["passes"], passesOf, &passes); n == 1 {
		t.plan.Widen(passes)
	} else if capacity > 0 { // free or not: what a run computes does not depend on who else uses the GPU
		t.widening = trainer.Widening{Within: t.device.Capacity() / 10 * 9, Half: t.gradDType == "auto" && t.settings.DType == tensor.BF16}
		if t.maxMemory > 0 {
			t.widening.Within = min(t.widening.Within, int(t.maxMemory)-t.device.Overhead())
		}
		t.widening.Apply(t.device, t.device.Fused(), t.origin.Config, &t.settings, t.plan)
	}
	if t.gradDType == "auto" && was.Identity != nil {
		t.settings.GradType = 0
		if was.Identity["grad-dtype"] == tensor.BF16.String() {
			t.settings.GradType = tensor.BF16
		}
	}
}

// passesOf is how a run's record says how many tokens go through the model at once.
const passesOf = "of up to %d tokens"

// logitsIn is how it says how much memory their logits have, on a GPU, where that follows from its memory.
const logitsIn = "in %d bytes"

// decisions are what was decided for this device.
func (t *train) decisions() map[string]string {
	all := map[string]string{"cpu": t.device.Level(), "passes": fmt.Sprintf(passesOf, t.plan.MaxTokens)}
	if gpu := t.device.Model(); gpu != "" {
		all["gpu"] = gpu
	}
	if n := t.settings.HeadBytes; n > 0 {
		all["logits"] = fmt.Sprintf(logitsIn, n)
	}
	if t.settings.Fill {
		all["rows"] = "filled up"
	}
	if with := t.device.Products(); with != "" {
		all[products] = with
	}
	for product, algorithm := range t.device.Choices() {
		all[ofProduct+product] = algorithm
	}
	return all
}

// products is what computes matrix products on a GPU, in a run's record, and ofProduct begins the name of one that has another algorithm
// than the library's first.
const products, ofProduct = "products", "product "

// choicesOf are the algorithms of products among decisions.
func choicesOf(decisions map[string]string) map[string]string {
	choices := map[string]string{}
	for name, algorithm := range decisions {
		if product, ok := strings.CutPrefix(name, ofProduct); ok {
			choices[product] = algorithm
		}
	}
	return choices
}
