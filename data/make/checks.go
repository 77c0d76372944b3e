package main

// Beginnings of checks, in Python. Most turn what the answer printed into got, letting a label such as "Result: " pass.
const (
	printedNumbers = `
import re
got = [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", printed)]
`
	printedWords = `
import re
got = re.findall(r"[A-Za-z]+", re.sub(r"^[^\[{(:]*[\[{(:]", "", printed))
`
	printedText = `
got = (printed.strip().splitlines() or [""])[-1].rpartition(": ")[2].strip()
`
	printedLines = `
got = [line.strip() for line in printed.splitlines() if line.strip()]
`
	printedDict = `
import re
parts = re.findall(r"[A-Za-z]+|-?\d+(?:\.\d+)?", re.sub(r"^[^{]*{", "", printed))
got = dict(zip(parts[::2], parts[1::2]))
assert len(parts) == 2 * len(got)
`
	// gives says whether a call returns the expected value, or prints it when it returns nothing.
	gives = `
import contextlib, io
def gives(function, expected, *values):
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        value = function(*values)
    if value is None:
        return shown.getvalue().strip() == str(expected).strip()
    if isinstance(expected, list) and not isinstance(value, (str, dict)):
        value = list(value)
    return value == expected
`
	// callsItself is an ending: it wants a function that is recursive.
	callsItself = `
assert "$fn" in getattr($fn, "__wrapped__", $fn).__code__.co_names
`
)
