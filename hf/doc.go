// Package hf reads and writes models in the layout of the Hugging Face hub: config.json and other small files, and
// safetensors in one file or several. It checks every size that a file claims against the bytes that it has before it
// allocates memory. Package hub downloads models. OpenAdapter and SaveAdapter do the same for low-rank adapters.
//
//	checkpoint, err := hf.Open(ctx, hub.FromEnv(), "owner/name") // or a directory
//	err = checkpoint.Load(ctx, device, params, nil)
//	err = hf.Save("out", checkpoint, device, params, hf.SaveOptions{})
package hf
