package dataset

import "fmt"

// A SettingError is an error that another value of a setting would avoid.
type SettingError struct {
	// Name is the name of the setting: "columns" and "split" of Options, "text" for a file that is one, or "seq" of
	// package training's Encoder.
	Name string
	Err  error
}

func (e *SettingError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *SettingError) Unwrap() error { return e.Err }

// Setting returns the name of the setting.
func (e *SettingError) Setting() string { return e.Name }

// columnsErrorf returns an error that other columns would avoid.
func columnsErrorf(format string, args ...any) error {
	return &SettingError{"columns", fmt.Errorf(format, args...)}
}
