package trainer_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"restyle/data"
	"restyle/dataset"
	"restyle/dataset/training"
	"restyle/hf"
	"restyle/infer"
	"restyle/kernels"
	"restyle/trainer"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Fine-tune the embedded model on some of the embedded dataset. The result is a directory in the Hugging Face layout,
// which transformers loads and chat opens: chat --tuned DIR.
func Example() {
	ctx := context.Background()
	files, err := data.StarterModel()
	check(err)
	base, err := hf.OpenModelFS(files, "the embedded model") // hf.Open opens a directory, or owner/name from the hub
	check(err)
	base.Name, base.Embedded = data.StarterName, true
	codec, err := infer.CodecOf(base, "")
	check(err)
	encoder := &training.Encoder{Tokenizer: codec.Tokenizer, Template: codec.Template, Seq: 128}
	set, err := training.Load(ctx, "starter", dataset.Options{Starter: data.Starter}, encoder)
	check(err)
	device, err := kernels.Open("cpu", kernels.Options{Fused: kernels.All()})
	check(err)
	defer device.Close()

	config, err := trainer.ConfigFor(base, false) // the settings that the train command takes for this model
	check(err)
	config.MaxSteps, config.Seq = 6, encoder.Seq
	set.Examples = set.Examples[:220]
	examples, heldOut := set.Split(0.1, config.Seed)
	plan, err := trainer.NewPlan(config, examples, heldOut)
	check(err)
	dir, err := os.MkdirTemp("", "tuned-")
	check(err)
	defer os.RemoveAll(dir)
	run, err := trainer.NewJob(device, base, plan, trainer.JobOptions{}).Open(ctx, dir+"/out", "")
	check(err)
	defer run.Close()
	run.Hooks.Evaluation = func(e trainer.Evaluation) { fmt.Println("evaluation after step", e.Step) }
	check(run.Start(ctx))
	result, err := run.Run(ctx)
	check(err)
	check(run.Save(nil))
	fmt.Println(result.Step, "steps,", result.Examples, "examples")
	// Output:
	// evaluation after step 0
	// evaluation after step 6
	// 6 steps, 48 examples
}
