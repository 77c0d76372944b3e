package main

// filterMutants are the faults of the environment, keys and what is printed.
var filterMutants = []mutant{
	{"filter/key-over-http", "teacher/openai/options.go", `u.Scheme != "https" && !isLoopback`, `false && !isLoopback`, "./teacher/openai -run TestOptions"},
	{"filter/loopback-by-prefix", "teacher/openai/options.go", `strings.HasSuffix(host, ".localhost")`, `strings.HasPrefix(host, "localhost.")`,
		"./teacher/openai -run TestOptions"},
	{"filter/env-any-name", "internal/cli/env.go", "for _, n := range dotEnvNames {\n\t\tvalue,",
		"for name := range all {\n\t\tos.Setenv(name, all[name])\n\t}\n\tfor _, n := range dotEnvNames {\n\t\tvalue,", "./internal/cli"},
	{"filter/env-wins", "internal/cli/env.go", "; set || !there", "; set && !there", "./internal/cli"},
	{"filter/env-token-for-any-hub", "internal/cli/env.go", `!env.Gave("HF_TOKEN") {`, `!env.Gave("HF_TOKEN") && false {`, "./internal/cli"},
	{"filter/env-token-file", "internal/cli/env.go", `os.Setenv("HF_TOKEN_PATH", os.DevNull)`, "", "./internal/cli"},
	{"filter/env-key-shown", "internal/cli/env.go", `value, secrets = "(hidden)", true`, "secrets = true", "./internal/cli"},
	{"filter/env-mode", "internal/cli/env.go", "Perm()&0o077 != 0", "Perm()&0o007 == 7", "./internal/cli"},
	{"filter/env-pipe", "internal/cli/env.go", "syscall.O_NONBLOCK", "syscall.O_NONBLOCK*0", "./internal/cli -timeout 20s"},
	{"filter/key-to-address-of-env", "cmd/gen/main.go", "g.baseKey = openai.Secret{}", "", "./cmd/gen -run TestKeyStaysHome"},
	{"filter/key-with-flag-withheld", "cmd/gen/main.go", `flags.ByEnv("base-url") && env.Gave`, `env.Gave`, "./cmd/gen -run TestKeyStaysHome"},
	{"filter/printed-as-it-is", "internal/cli/printed.go", "out := Clean(string(text[:end]))", "out := string(text[:end])", "./internal/cli"},
	{"filter/printed-cuts-characters", "internal/cli/printed.go", "end -= i", "end -= 0", "./internal/cli"},
}
