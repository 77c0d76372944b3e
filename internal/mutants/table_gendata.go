package main

// gendataMutants are the faults of gen's checks and outputs.
var gendataMutants = []mutant{}
