package cli

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"

	"restyle/internal/expect"
)

// emptyEnv removes from the environment, for one test, every variable that concerns .env or its checks.
func emptyEnv(t *testing.T) {
	t.Helper()
	names := append([]string{"HUGGING_FACE_HUB_TOKEN", "LD_PRELOAD", "DATABASE_URL"}, environmentOnly...)
	for _, n := range dotEnvNames {
		names = append(names, n.name)
	}
	for _, name := range names {
		t.Setenv(name, "") // makes the test restore the variable
		os.Unsetenv(name)
	}
}

func TestLoadEnv(t *testing.T) {
	const secret = "sk-very-secret-value"
	for _, c := range []struct {
		name   string
		file   string
		mode   os.FileMode
		real   map[string]string // environment before LoadEnv
		want   map[string]string // environment after LoadEnv; "" is not set
		says   []string
		silent []string
	}{
		{name: "a key and its server", file: "OPENAI_API_KEY=" + secret + "\nOPENAI_BASE_URL=http://localhost:8000/v1\n",
			want:   map[string]string{"OPENAI_API_KEY": secret, "OPENAI_BASE_URL": "http://localhost:8000/v1"},
			says:   []string{"OPENAI_BASE_URL=http://localhost:8000/v1", "OPENAI_API_KEY=(hidden)"},
			silent: []string{secret, "chmod"}},
		{name: "the environment wins", file: "TEACHER_MODEL=file\nHF_HUB_OFFLINE=1\n",
			real: map[string]string{"TEACHER_MODEL": "real"},
			want: map[string]string{"TEACHER_MODEL": "real", "HF_HUB_OFFLINE": "1"}, says: []string{"HF_HUB_OFFLINE=1"},
			silent: []string{"TEACHER_MODEL"}},
		{name: "other programs' settings", file: "DATABASE_URL=postgres://x\nLD_PRELOAD=/tmp/x.so\n",
			want: map[string]string{"DATABASE_URL": "", "LD_PRELOAD": ""}, silent: []string{"DATABASE_URL", "LD_PRELOAD"}},
		{name: "what would load code or read along",
			file: "RESTYLE_NVRTC=/tmp/x.so\nRESTYLE_CACHE=/tmp/x\nHTTPS_PROXY=http://x\nhttp_proxy=http://x\n",
			want: map[string]string{"RESTYLE_NVRTC": "", "RESTYLE_CACHE": "", "HTTPS_PROXY": "", "http_proxy": ""},
			says: []string{"RESTYLE_NVRTC is not read", "RESTYLE_CACHE is not read", "HTTPS_PROXY is not read",
				"http_proxy is not read"}},
		{name: "a hub for the user's token", file: "HF_ENDPOINT=https://mirror.example\n",
			real: map[string]string{"HF_TOKEN": secret, "HUGGING_FACE_HUB_TOKEN": secret, "HF_TOKEN_PATH": "/home/user/token"},
			want: map[string]string{"HF_ENDPOINT": "https://mirror.example", "HF_TOKEN": "", "HUGGING_FACE_HUB_TOKEN": "",
				"HF_TOKEN_PATH": os.DevNull},
			says: []string{"HF_ENDPOINT=https://mirror.example", "gets no token"}},
		{name: "a hub with its token", file: "HF_ENDPOINT=https://mirror.example\nHF_TOKEN=" + secret + "\n",
			want: map[string]string{"HF_TOKEN": secret, "HF_TOKEN_PATH": ""}, silent: []string{secret, "gets no token"}},
		{name: "a hub with its token, but the user's is set", file: "HF_ENDPOINT=https://mirror.example\nHF_TOKEN=x\n",
			real: map[string]string{"HF_TOKEN": secret}, want: map[string]string{"HF_TOKEN": ""},
			says: []string{"gets no token"}},
		{name: "the user's hub", file: "HF_ENDPOINT=https://mirror.example\n",
			real: map[string]string{"HF_ENDPOINT": "https://own.example", "HF_TOKEN": secret},
			want: map[string]string{"HF_ENDPOINT": "https://own.example", "HF_TOKEN": secret}},
		{name: "from a Windows editor", file: "\ufeffTEACHER_MODEL=m\r\nHF_HUB_OFFLINE=1\r\n",
			want: map[string]string{"TEACHER_MODEL": "m", "HF_HUB_OFFLINE": "1"}},
		{name: "others can read it", file: "HF_TOKEN=" + secret + "\n", mode: 0o644, says: []string{"chmod 600 .env"},
			silent: []string{secret}},
		{name: "others can read what is no secret", file: "HF_HUB_OFFLINE=1\n", mode: 0o644, silent: []string{"chmod"}},
		{name: "a password in an address", file: "OPENAI_BASE_URL=http://" + secret + "@a/v1,http://b/v1\n",
			says: []string{"OPENAI_BASE_URL=http://a/v1,http://b/v1"}, silent: []string{secret}},
		{name: "escapes", file: "TEACHER_MODEL=\"a\x1b]0;owned\x07\"\n", silent: []string{"\x1b", "\x07"},
			says: []string{"TEACHER_MODEL=a␛"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			emptyEnv(t)
			t.Chdir(t.TempDir())
			for name, value := range c.real {
				os.Setenv(name, value)
			}
			if c.mode == 0 {
				c.mode = 0o600
			}
			expect.OK(t, os.WriteFile(".env", []byte(c.file), 0o600))
			expect.OK(t, os.Chmod(".env", c.mode))
			var out bytes.Buffer
			env, ok := LoadEnv("tool", &out)
			if !ok {
				t.Fatalf("refused: %s", out.String())
			}
			for name, want := range c.want {
				if got := os.Getenv(name); got != want {
					t.Errorf("%s is %q, not %q", name, got, want)
				}
				if _, was := c.real[name]; env.Gave(name) && was {
					t.Errorf("%s counts as .env's", name)
				}
			}
			for _, text := range c.says {
				if !strings.Contains(out.String(), text) {
					t.Errorf("it does not say %q: %s", text, out.String())
				}
			}
			for _, text := range c.silent {
				if strings.Contains(out.String(), text) {
					t.Errorf("it says %q: %s", text, out.String())
				}
			}
		})
	}
}

func TestLoadEnvRefuses(t *testing.T) {
	const secret = "sk-very-secret-value"
	for name, make := range map[string]func() error{
		"not of the form": func() error { return os.WriteFile(".env", []byte("TOOL_KEY \""+secret+"\n=x"), 0o600) },
		"directory":       func() error { return os.Mkdir(".env", 0o700) },
		"pipe":            func() error { return syscall.Mkfifo(".env", 0o600) },
		"huge":            func() error { return os.WriteFile(".env", bytes.Repeat([]byte("A=b\n"), maxDotEnv/4+1), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			emptyEnv(t)
			t.Chdir(t.TempDir())
			expect.OK(t, make())
			var out bytes.Buffer
			_, ok := LoadEnv("tool", &out)
			if text := out.String(); ok || strings.Count(text, "\n") != 1 || !strings.Contains(text, ".env") ||
				strings.Contains(text, secret) ||
				strings.Contains(text, "move it away") != (name != "not of the form") {
				t.Errorf("%v %q", ok, text)
			}
		})
	}
	for text, want := range map[string]string{
		"TOOL_KEY \"" + secret + "\n=x":                                     ".env: line 1 is not",
		"# keys\n\nHF_HOME=a\nHF_TOKEN \"" + secret + "\nTEACHER_MODEL=b\n": ".env: line 4 is not",
		"\xff\xfeA\x00=\x00b\x00":                                           "UTF-16",
		"\xff\xfeab":                                                        "UTF-16", "\xfe\xffab": "UTF-16",
		"A\x00=\x00b\x00":            "UTF-16",
		"\ufeff\nHF_TOKEN " + secret: ".env: line 2 is not",
		"TEACHER_MODEL=\"a\nb\"\nHF_HOME=x\nHF_TOKEN " + secret: ".env: line 4 is not",
		strings.Repeat("A=b\n", 1200) + "HF_TOKEN " + secret:    ".env is not",
	} {
		emptyEnv(t)
		t.Chdir(t.TempDir())
		expect.OK(t, os.WriteFile(".env", []byte(text), 0o600))
		var out bytes.Buffer
		if _, ok := LoadEnv("tool", &out); ok || !strings.Contains(out.String(), want) ||
			strings.Contains(out.String(), secret) {
			t.Errorf("%.60q: %v %q, want %q", text, ok, out.String(), want)
		}
	}
	emptyEnv(t)
	t.Chdir(t.TempDir())
	var out bytes.Buffer
	if env, ok := LoadEnv("tool", &out); !ok || len(env) > 0 || out.Len() > 0 {
		t.Errorf("without a .env: %v %v %q", env, ok, out.String())
	}
}
