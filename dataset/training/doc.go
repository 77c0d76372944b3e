// Package training turns the rows of a dataset into the examples that a model is trained on.
//
// [Load] does all of it; each step has a file of its own:
//
//	dataset.Conversation -> [Example]      tokens, and labels for those that count in the loss (example.go, show.go)
//	Examples             -> [Set]          with totals and a hash (set.go; text.go for plain text)
//	a Set's Examples     -> two parts      for training and for validation ([Set.Split], order.go)
//	an epoch             -> [Order], [Pack] when each example comes, and in which pack (order.go, pack.go)
//
// All of it is exact: a set, its split, its order and its packing depend only on the data and the settings, not on the
// machine or the number of threads.
package training
