package hf_test

import (
	"fmt"
	"log"

	"restyle/hf"
)

// ExampleOpenModel opens a model's directory, which checks all of it, and reads one weight: weights are read only on
// request.
func ExampleOpenModel() {
	m, err := hf.OpenModel("testdata/tied")
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	fmt.Println(m.Config.Family, m.Config.ParamCount(), m.DTypes())
	norm, shape, err := m.ReadF32("model.norm.weight")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(shape, norm[:2])
	// Output:
	// llama 3088 map[BF16:3088]
	// [16] [0.7421875 -0.044189453]
}
