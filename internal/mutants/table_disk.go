package main

// diskMutants are the faults of locks, syncs and files that are complete or absent.
var diskMutants = []mutant{}
