package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"restyle/internal/disk"

	"github.com/joho/godotenv"
)

// dotEnvNames are the settings that .env may give, in the order in which they are printed. LoadEnv ignores everything
// else in .env. The file comes with a directory, such as a stranger's repository, and must not choose a proxy, or a
// library or compiled kernels to load.
var dotEnvNames = []struct {
	name   string
	secret bool
}{
	{"OPENAI_BASE_URL", false},
	{"OPENAI_API_KEY", true},
	{"TEACHER_MODEL", false},
	{"HF_ENDPOINT", false},
	{"HF_TOKEN", true},
	{"HF_HOME", false},
	{"HF_HUB_CACHE", false},
	{"HF_HUB_OFFLINE", false},
	{"RESTYLE_CPU", false},
}

// environmentOnly are settings that .env may not give, although people may expect it to.
var environmentOnly = []string{"RESTYLE_NVRTC", "RESTYLE_CUBLASLT", "RESTYLE_NCCL", "RESTYLE_CUDA", "RESTYLE_NVML",
	"RESTYLE_NVTX", "RESTYLE_CACHE",
	"RESTYLE_API_KEYS",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
	"HF_TOKEN_PATH", "CUDA_HOME", "CUDA_PATH"}

// maxDotEnv is the maximum size of .env in bytes, far more than its settings need.
const maxDotEnv = 1 << 20

// DotEnv holds the settings that came from .env, by name.
type DotEnv map[string]string

// LoadEnv reads .env in the working directory, if there is one, into the process's environment. A variable that is
// already set keeps its value. LoadEnv reads only the names that .env.example has, and nothing that makes the program
// load code. It prints a line that lists what it took, without the keys. If ok is false, .env cannot be used, and
// LoadEnv has printed why.
//
// An address must not come from .env while its key comes from elsewhere: whoever made the directory would get the
// user's key. For the hub, LoadEnv prevents this by removing the token from the process's environment. For the teacher
// see [DotEnv.Gave], because there a flag may still replace the address.
func LoadEnv(command string, stderr io.Writer) (env DotEnv, ok bool) {
	text, open, err := readDotEnv()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true
	}
	var all map[string]string
	if err == nil {
		if all, err = godotenv.UnmarshalBytes(text); err != nil {
			// The library's message quotes the text that it could not read, which may be a key.
			err = fmt.Errorf(".env%s is not of the form NAME=value: mend it or move the file away", badLine(text))
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", command, err)
		return nil, false
	}
	env = DotEnv{}
	var taken []string
	secrets := false
	for _, n := range dotEnvNames {
		value, there := all[n.name]
		if _, set := os.LookupEnv(n.name); set || !there || strings.TrimSpace(value) == "" {
			continue
		}
		if err := os.Setenv(n.name, value); err != nil {
			fmt.Fprintf(stderr, "%s: .env: %s cannot be set: mend its value\n", command, n.name)
			return nil, false
		}
		env[n.name] = value
		if n.secret {
			value, secrets = "(hidden)", true
		}
		taken = append(taken, n.name+"="+Clean(withoutUser(value)))
	}
	if len(taken) > 0 {
		fmt.Fprintf(stderr, "%s: from .env: %s\n", command, strings.Join(taken, " "))
	}
	for _, name := range environmentOnly {
		if _, there := all[name]; there {
			fmt.Fprintf(stderr, "%s: .env: %s is not read from there: set it in the environment if you trust its value\n",
				command, name)
		}
	}
	if secrets && open {
		fmt.Fprintf(stderr, "%s: .env holds a key and other users can read it: chmod 600 .env\n", command)
	}
	if env.Gave("HF_ENDPOINT") && !env.Gave("HF_TOKEN") {
		for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
			os.Unsetenv(name)
		}
		os.Setenv("HF_TOKEN_PATH", os.DevNull)
		fmt.Fprintf(stderr, "%s: the hub's address is from .env, so it gets no token but one from .env\n", command)
	}
	return env, true
}

// badLine returns the line of a .env from which on the file cannot be parsed: the one after the longest beginning that
// can. It returns "" for a file with so many lines that the search would take long.
func badLine(text []byte) string {
	lines := bytes.SplitAfter(text, []byte("\n"))
	if len(lines) > 1000 {
		return ""
	}
	for n := len(lines) - 1; n >= 0; n-- {
		if _, err := godotenv.UnmarshalBytes(bytes.Join(lines[:n], nil)); err == nil {
			return fmt.Sprintf(": line %d", n+1)
		}
	}
	return ""
}

// withoutUser removes the user and the password from addresses.
func withoutUser(value string) string {
	if !strings.Contains(value, "@") {
		return value
	}
	parts := strings.Split(value, ",")
	for i, part := range parts {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil {
			return "(not an address)"
		}
		u.User = nil
		parts[i] = u.String()
	}
	return strings.Join(parts, ",")
}

// Gave reports whether a setting came from .env.
func (e DotEnv) Gave(name string) bool { return e[name] != "" }

// readDotEnv returns the file's text, and reports whether users other than its owner may read it.
func readDotEnv() (text []byte, open bool, err error) {
	fail := func(err error) ([]byte, bool, error) { return nil, false, fmt.Errorf("cannot read .env: %w", err) }
	f, err := disk.OpenInput(".env")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: move it away", err)
	}
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		text, err = disk.ReadAll(f, ".env", maxDotEnv)
	}
	if err != nil {
		return fail(fmt.Errorf("%w: move it away", err))
	}
	marked := bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff"))
	if marked || bytes.IndexByte(text, 0) >= 0 {
		return fail(errors.New("it is UTF-16, as PowerShell writes it: save it as UTF-8"))
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // Windows editors put it there
	return text, info.Mode().Perm()&0o077 != 0, nil
}
