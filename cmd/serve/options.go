package main

import (
	"io"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"restyle/data"
	"restyle/infer"
	"restyle/internal/cli"
)

const about = `
serve answers the HTTP APIs of OpenAI and Anthropic with models of this machine.

  serve                                  the model in out/, or the embedded one if there is none
  serve meta-llama/Llama-3.2-1B-Instruct --quantize int8
  serve base=models/base tuned=out       two models: the field model of a request names one of them
  serve models/base --adapter radio=out  a base, and an adapter that shares its weights
  RESTYLE_API_KEYS=$(openssl rand -hex 24) serve --listen 0.0.0.0:8080

A model is a directory, a .gguf file, a hub id, or starter, the embedded model; NAME=MODEL gives it another name.
Programs take http://127.0.0.1:8080/v1 as the base URL of OpenAI's API, or http://127.0.0.1:8080 as that of
Anthropic's. Many answers are generated at once, and none depends on the others.

Other machines can reach it only under another --listen address, and then every request needs one of the keys in
RESTYLE_API_KEYS, separated by commas. Ctrl-C or SIGTERM lets the answers in progress finish (--drain); a second one
ends them.`

// options are the values of the flags.
type options struct {
	models   []modelRef // in the order of their names on the command line
	guests   []modelRef // the adapters on the first of them
	adapters cli.Paths
	template string
	offline  bool

	adapterDir   string
	adapterRanks int

	listen, unix, cert, key string
	origins, hosts          cli.Paths
	set                     *cli.Flags // which flags the command line sets

	context, maxTokens, sequences, queue, cache int

	body, connections                int
	headerTime, slow, timeout, drain time.Duration
	device, dtype, quantize          string
	threads                          int
	keys                             []string
	version                          bool
}

// A modelRef is a model to open, under the name that requests give it. base is an adapter's base, if it was given.
type modelRef struct{ name, path, base string }

func defaults() *options {
	return &options{listen: "127.0.0.1:8080", device: "auto", dtype: "auto", context: 8192, sequences: 64, queue: 256,
		body: 4 << 20, connections: 10_000, headerTime: 5 * time.Second, slow: 30 * time.Second, timeout: 10 * time.Minute,
		drain: 30 * time.Second}
}

func (o *options) flags(stdout, stderr io.Writer) *cli.Flags {
	f := cli.New("serve", about, stdout, stderr)
	f.Group("Models")
	f.Add(&o.adapters, "adapter", "a low-rank adapter on the first model, `NAME=DIRECTORY`, which shares its weights; "+
		"may be repeated")
	f.Add(&o.adapterDir, "adapter-dir", "let clients load adapters from this `directory` while the server runs, and drop "+
		"them")
	f.Add(&o.adapterRanks, "adapter-ranks", "the ranks of all adapters together, each rounded up to a multiple of 16, "+
		"that there is room for; 0: the ranks of --adapter, and 64 more with --adapter-dir")
	f.Add(&o.template, "template", infer.TemplateHelp())
	f.Add(&o.offline, "offline", "use only hub models that are in the cache")

	f.Group("Address")
	f.Add(&o.listen, "listen", "`address` to listen on, host:port; port 0 takes any")
	f.Add(&o.unix, "unix", "listen on a Unix `socket` that only this user can open, instead of --listen")
	f.Add(&o.cert, "tls-cert", "`file` of the certificate, and of those that lead to it, for https")
	f.Add(&o.key, "tls-key", "`file` of the certificate's private key")
	f.Add(&o.hosts, "host", "another `name` under which requests may come to a loopback address, such as that of a "+
		"proxy; may be repeated")
	f.Add(&o.origins, "cors", "let the web pages of this `origin`, such as https://example.com, ask; may be repeated")

	f.Group("Answers")
	f.Add(&o.context, "context", "maximum tokens of a prompt and its answer, limited to what the model supports")
	f.Add(&o.maxTokens, "max-tokens", "maximum tokens of an answer; 0: what fits into the context")
	f.Add(&o.sequences, "sequences", "answers that are generated at once; others wait")
	f.Add(&o.queue, "queue", "requests that wait at most; others get status 429")
	f.Add(&o.cache, "cache", "`tokens` whose keys and values are kept, of all answers together; 0: as many as "+
		"--sequences of --context need, or as half of the free memory holds")

	f.Group("Limits")
	f.Add(&o.body, "body", "maximum `bytes` of a request")
	f.Add(&o.connections, "connections", "connections at once; others wait")
	f.Add(&o.headerTime, "header-time", "how long a client may take to send a request's header")
	f.Add(&o.slow, "slow", "how long a client may take to send a request's body, and to read what was written at once")
	f.Add(&o.timeout, "timeout", "how long a request may take, with the time that it waits")
	f.Add(&o.drain, "drain", "how long answers in progress may go on after Ctrl-C or SIGTERM; 0: not at all")

	f.Group("Device")
	f.Add(&o.device, "device", cli.DeviceHelp)
	f.Add(&o.dtype, "dtype", cli.DTypeHelp)
	f.Add(&o.quantize, "quantize", "quantize the weights of linear layers to `int8|int4|nf4` while the models are "+
		"loaded; the head, and an embedding tied to it, to int8; everything else keeps its type")
	f.Add(&o.threads, "threads", "CPU threads; 0 uses GOMAXPROCS")
	f.Add(&o.version, "version", "print the version")
	o.set = f
	return f
}

// check reports invalid flags, as far as they are by themselves, and sets what follows from several.
func (o *options) check(names []string) error {
	_, known := infer.DTypes[o.dtype]
	_, quantization := infer.Quantizations[o.quantize]
	for _, n := range []struct {
		flag               string
		value, least, most int // or sizes could overflow
	}{
		{"context", o.context, 2, math.MaxInt32}, {"max-tokens", o.maxTokens, 0, math.MaxInt32},
		{"sequences", o.sequences, 1, 1 << 20}, {"queue", o.queue, 1, math.MaxInt32}, {"cache", o.cache, 0, math.MaxInt32},
		{"adapter-ranks", o.adapterRanks, 0, math.MaxInt32}, {"body", o.body, 1, math.MaxInt32},
		{"connections", o.connections, 1, math.MaxInt32},
	} {
		if n.value < n.least || n.value > n.most {
			return cli.Usagef("--%s %d: must be %d to %d", n.flag, n.value, n.least, n.most)
		}
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"header-time", o.headerTime}, {"slow", o.slow}, {"timeout", o.timeout}} {
		if d.value <= 0 {
			return cli.Usagef("--%s %v: must be more than 0", d.flag, d.value)
		}
	}
	switch {
	case o.drain < 0:
		return cli.Usagef("--drain %v: must be at least 0", o.drain)
	case cli.CheckThreads(o.threads) != nil:
		return cli.CheckThreads(o.threads)
	case cli.CheckDevice(o.device) != nil:
		return cli.CheckDevice(o.device)
	case !known:
		return cli.Usagef("--dtype %q: must be auto, bf16, fp16 or fp32", o.dtype)
	case !quantization || o.quantize == infer.INT8x8: // which rounds the rows of a step by how many they are
		return cli.Usagef("--quantize %q: must be int8, int4 or nf4", o.quantize)
	case (o.cert == "") != (o.key == ""):
		return cli.Usagef("--tls-cert and --tls-key belong together: give both, or none")
	case o.adapterRanks > 0 && len(o.adapters) == 0 && o.adapterDir == "":
		return cli.Usagef("--adapter-ranks %d: there are no adapters: give --adapter or --adapter-dir as well",
			o.adapterRanks)
	case o.unix != "" && o.set.Given("listen"):
		return cli.Usagef("--unix and --listen exclude each other: leave one of them out")
	case o.unix != "" && o.cert != "":
		return cli.Usagef("--unix needs no --tls-cert: nothing leaves the machine")
	}
	for _, origin := range o.origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Scheme+"://"+u.Host != origin {
			return cli.Usagef("--cors %q: must be an origin, such as https://example.com", origin)
		}
	}
	for _, host := range o.hosts {
		if _, _, err := net.SplitHostPort(host); err == nil || strings.ContainsAny(host, "/[] ") {
			return cli.Usagef("--host %q: must be a name alone, such as example.com, without a scheme and a port", host)
		}
	}
	if err := o.readKeys(os.Getenv("RESTYLE_API_KEYS")); err != nil {
		return err
	}
	if err := o.checkListen(); err != nil {
		return err
	}
	return o.name(names)
}

// readKeys reads the keys of the environment.
func (o *options) readKeys(value string) error {
	if strings.TrimSpace(value) == "" {
		return nil
	}
	for key := range strings.SplitSeq(value, ",") {
		key = strings.TrimSpace(key)
		if key == "" || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return cli.Usagef("RESTYLE_API_KEYS: must be keys of visible ASCII characters, separated by commas")
		}
		o.keys = append(o.keys, key)
	}
	return nil
}

// checkListen refuses an address that other machines reach, unless there are keys.
func (o *options) checkListen() error {
	if o.unix != "" {
		return nil
	}
	address, err := net.ResolveTCPAddr("tcp", o.listen)
	if err != nil {
		return cli.Usagef("--listen %q: must be an address like 127.0.0.1:8080: %w", o.listen, err)
	}
	if !address.IP.IsLoopback() && len(o.keys) == 0 {
		return cli.Usagef("--listen %s: other machines can reach this address, so requests need a key: set "+
			"RESTYLE_API_KEYS to one or several, separated by commas, such as $(openssl rand -hex 24); or listen on "+
			"127.0.0.1", o.listen)
	}
	return nil
}

// name gives the models their names.
func (o *options) name(args []string) error {
	if len(args) == 0 {
		args = []string{data.StarterName}
		if _, err := os.Stat("out"); err == nil {
			args[0] = "out"
		}
	}
	for _, arg := range args {
		o.models = append(o.models, named(arg))
	}
	first := o.models[0].path
	for _, arg := range o.adapters {
		name, dir, ok := strings.Cut(arg, "=")
		if !ok || name == "" || dir == "" {
			return cli.Usagef("--adapter %q: must be NAME=DIRECTORY", arg)
		}
		o.guests = append(o.guests, modelRef{name, dir, first})
	}
	seen := map[string]bool{}
	for _, m := range slices.Concat(o.models, o.guests) {
		if seen[m.name] {
			return cli.Usagef("two models have the name %q: give one of them another, as NAME=MODEL", m.name)
		}
		seen[m.name] = true
	}
	return nil
}

// named returns a model by an argument MODEL or NAME=MODEL. Without a name, a path is named by its last element, so
// that no client learns of the directories of this machine.
func named(arg string) modelRef {
	_, err := os.Stat(arg)
	if name, path, ok := strings.Cut(arg, "="); ok && err != nil && name != "" && path != "" {
		return modelRef{name: name, path: path}
	}
	name := arg
	if err == nil && arg != data.StarterName || filepath.IsAbs(arg) {
		if whole, err := filepath.Abs(arg); err == nil {
			name = filepath.Base(whole)
		}
	}
	return modelRef{name: name, path: arg}
}

// loopback reports whether only this machine can reach the address.
func loopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// names returns the names under which requests come to a loopback address.
func (o *options) names() []string {
	host, _, _ := net.SplitHostPort(o.listen)
	names := append([]string{"localhost", "127.0.0.1", "::1", host}, o.hosts...)
	for i := range names {
		names[i] = strings.ToLower(names[i]) // names in requests are compared this way
	}
	slices.Sort(names)
	return slices.Compact(names)
}
