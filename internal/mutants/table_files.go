package main

// filesMutants are the faults of what is read: model directories, tokenizers, templates, datasets.
var filesMutants = []mutant{}
