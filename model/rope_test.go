package model

import (
	"math"
	"testing"
)

// TestInvFreq has the frequencies of Llama 3.2 at the borders of the three ranges, worked out apart from the code.
func TestInvFreq(t *testing.T) {
	c := Config{HeadDim: 64, RoPETheta: 500000, RoPEScaling: &Llama3Scaling{Factor: 32, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositions: 8192}}
	f := c.InvFreq()
	c.RoPEScaling = nil
	plain := c.InvFreq()
	kept, blended, divided := 0, 0, 0
	for i := range f {
		switch ratio := f[i] / plain[i]; {
		case ratio == 1:
			kept++
		case math.Abs(ratio-1.0/32) < 1e-15:
			divided++
		case ratio > 1.0/32 && ratio < 1:
			blended++
		default:
			t.Errorf("frequency %d is %g of itself", i, ratio)
		}
	}
	// Wavelengths below 2,048 are kept, above 8,192 divided: 2π·500000^(i/32) lies between for i from 14.11 to 17.49.
	if kept != 15 || blended != 3 || divided != 14 {
		t.Errorf("%d kept, %d blended, %d divided", kept, blended, divided)
	}
	if plain[0] != 1 || math.Abs(plain[32/2]-math.Pow(500000, -0.5)) > 1e-18 {
		t.Error(plain)
	}
}
