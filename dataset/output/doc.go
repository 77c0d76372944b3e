// Package output writes gen's output: rewritten rows with their certificates, and the dataset card.
//
// [Create] starts a [Writer]. It writes both files under temporary names, and [Writer.Commit] renames them. [WriteFile]
// puts a single file in place the same way. Each takes a lock, and keeps the file that it replaces as a backup.
package output
