//go:build race

package hostile

const race = true
