// Package hf reads and writes models as the Hugging Face hub keeps them: config.json and the files beside it, safetensors in
// one file or several. All that a file says of sizes is compared with the bytes that are there before memory is asked for.
// The package hub in it downloads what others keep there.
//
//	checkpoint, err := hf.Open(ctx, hub.FromEnv(), "owner/name") // or a directory, or "starter"
//	err = checkpoint.Load(ctx, device, params, nil)
//	err = hf.Save("out", checkpoint, device, params, hf.SaveOptions{})
package hf
