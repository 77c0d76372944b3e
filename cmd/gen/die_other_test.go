//go:build !linux

package main

import "errors"

func dieAt(uint64) error { return errors.ErrUnsupported }
