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

// Fine-tune the embedded model on some of the embedded dataset. The result is a directory in the Hugging Face layout.
func Example() {
	ctx := context.Background()
	base, err := hf.Open(ctx, nil, "starter") // a directory works too, and owner/name with a hub
	check(err)
	codec, err := infer.CodecOf(base, "")
	check(err)
	encoder := &training.Encoder{Tokenizer: codec.Tokenizer, Template: codec.Template, Seq: 128}
	set, err := training.Load(ctx, "starter", dataset.Options{Starter: data.Starter}, encoder)
	check(err)
	device, err := kernels.Open("cpu", kernels.Options{Fused: kernels.All()})
	check(err)
	defer device.Close()

	config := trainer.DefaultConfig()
	config.MaxSteps, config.Seq, config.LR, config.Samples = 6, encoder.Seq, 1e-4, 0
	plan, err := trainer.NewPlan(config, set.Examples[:200], set.Examples[200:220])
	check(err)
	dir, err := os.MkdirTemp("", "tuned-")
	check(err)
	defer os.RemoveAll(dir)
	run, err := trainer.NewJob(device, base, plan, trainer.JobOptions{}).Open(ctx, dir, "")
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
	// 6 steps, 24 examples
}
