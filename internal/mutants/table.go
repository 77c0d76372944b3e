package main

import "slices"

// mutants returns the faults of all areas.
func mutants() []mutant {
	return slices.Concat(trainerMutants, usersMutants, kernelsMutants, modelsMutants, gptMutants, expertMutants,
		filesMutants, serverMutants, gendataMutants, sandboxMutants, diskMutants, filterMutants, emulatedMutants,
		productMutants, gpuMutants, decodeMutants, adamWMutants, driverMutants, attentionMutants, blasMutants, stepMutants,
		opsMutants, benchMutants, quantMutants, templateMutants, inputsMutants, geninputMutants, afterMutants, noneMutants,
		parseMutants)
}
