// The compiler of the emulated GPU, in place of NVRTC.
#include "emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <vector>

// The text of device.h, which kernels include.
static const char DEVICE[] =
#include "device_text.h"
	;

struct _nvrtcProgram {
	std::string source, name, log, image;
	std::map<std::string, std::string> headers;
};

enum { NVRTC_TOLD = NVRTC_ERROR_BUILTIN_OPERATION_FAILURE };
#define COMPILER_CALLED \
	if (told(__func__)) return NVRTC_TOLD

EXPORT const char *nvrtcGetErrorString(nvrtcResult r) {
	switch (r) {
	case NVRTC_ERROR_COMPILATION: return "NVRTC_ERROR_COMPILATION";
	case NVRTC_TOLD: return lasting(told_why);
	}
	return "the C++ compiler cannot be run, or there is no room for its files";
}
EXPORT nvrtcResult nvrtcVersion(int *major, int *minor) {
	COMPILER_CALLED;
	return *major = 0, *minor = EMULATED_VERSION, NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetNumSupportedArchs(int *n) {
	COMPILER_CALLED;
	return *n = 1, NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetSupportedArchs(int *archs) {
	COMPILER_CALLED;
	return archs[0] = 90, NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcCreateProgram(nvrtcProgram *p, const char *source, const char *name, int headers,
	const char *const *contents, const char *const *names) {
	COMPILER_CALLED;
	*p = new _nvrtcProgram{source, name, "", "", {}};
	for (int i = 0; i < headers; i++) (*p)->headers[names[i]] = contents[i];
	return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcDestroyProgram(nvrtcProgram *p) {
	delete *p, *p = NULL;
	COMPILER_CALLED;
	return NVRTC_SUCCESS;
}

static bool put(const std::string &path, const std::string &text) {
	FILE *f = fopen(path.c_str(), "w");
	if (!f) return false;
	bool ok = fwrite(text.data(), 1, text.size(), f) == text.size();
	return fclose(f) == 0 && ok;
}

static std::string get(const std::string &path) {
	std::string text;
	char part[1 << 16];
	FILE *f = fopen(path.c_str(), "r");
	for (size_t n; f && (n = fread(part, 1, sizeof part, f)) > 0;) text.append(part, n);
	if (f) fclose(f);
	return text;
}

static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

// next_word returns the word at or after i, and sets i to its end.
static std::string next_word(const std::string &s, size_t *i) {
	while (*i < s.size() && isspace((unsigned char)s[*i])) ++*i;
	const size_t from = *i;
	while (*i < s.size() && in_word(s[*i])) ++*i;
	return s.substr(from, *i - from);
}

// kernels returns a source's __global__ functions.
static std::vector<std::string> kernels(const std::string &s) {
	static const std::string global = "__global__";
	std::vector<std::string> names;
	for (size_t at = s.find(global); at != std::string::npos; at = s.find(global, at + 1)) {
		size_t i = at + global.size();
		std::string word = next_word(s, &i);
		for (; word == "void" || word == "__launch_bounds__"; word = next_word(s, &i)) {
			if (word == "void") continue;
			i = s.find('(', i);
			for (int depth = 0; i < s.size() && (depth += (s[i] == '(') - (s[i] == ')')) > 0; i++) {}
			i += i < s.size();
		}
		if (word != "" && i < s.size() && s[i] == '(') names.push_back(word);
	}
	return names;
}

// translated returns a source or header with dynamic shared memory declared in C++: as a pointer, which a launch sets
// outside of functions, and which is initialized in functions.
static std::string translated(std::string s) {
	int depth = 0;
	for (size_t at = 0; at < s.size(); at++) {
		depth += (s[at] == '{') - (s[at] == '}');
		if (s.compare(at, 6, "extern") || (at > 0 && in_word(s[at - 1]))) continue;
		size_t i = at + 6;
		const size_t end = s.find("[]", at);
		if (next_word(s, &i) != "__shared__" || end >= s.find(';', at)) continue;
		size_t name = end;
		while (in_word(s[name - 1])) name--;
		const std::string type = s.substr(i, name - i);
		const std::string called = s.substr(name, end - name);
		const std::string made = depth == 0 ? "EMULATED_DYNAMIC" + type + "*volatile " + called
		                                    : type + "*" + called + " = (decltype(" + called + "))EMULATED_DYNAMIC_HERE";
		s.replace(at, end + 2 - at, made);
	}
	return s;
}

// run runs a program and appends its output to a file.
static int run(const std::vector<std::string> &words, const std::string &log) {
	std::vector<char *> args;
	for (auto &w : words) args.push_back((char *)w.c_str());
	args.push_back(NULL);
	const pid_t child = fork();
	if (child == 0) {
		if (!freopen(log.c_str(), "a", stderr)) _exit(126);
		dup2(2, 1);
		execvp(args[0], args.data());
		_exit(127);
	}
	int status = 0;
	if (child < 0 || waitpid(child, &status, 0) < 0) return 127;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

EXPORT nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int count, const char *const *options) {
	COMPILER_CALLED;
	const char *folder = getenv("TMPDIR");
	std::string dir = std::string(folder && *folder ? folder : "/tmp") + "/restyle-emulated-XXXXXX";
	if (!mkdtemp(&dir[0])) return NVRTC_ERROR_INTERNAL_ERROR;
	std::string at = dir + "/", end;
	for (auto &name : kernels(p->source)) end += "EMULATED_KERNEL(" + name + ")\n";
	// In an unnamed namespace, even a template's shared memory is in the section where the driver looks for it.
	bool ok = put(at + p->name,
				  "#include \"device.h\"\nnamespace {\n#line 1\n" + translated(p->source) + "\n}\n" + end) &&
		put(at + "device.h", DEVICE);
	for (auto &h : p->headers) ok = ok && put(at + h.first, translated(h.second));
	// The sanitizers' libraries are not wanted, so they are not passed to the linker; and searching the C++ library would
	// take long.
	std::vector<std::string> words = {COMPILER_PATH, "-std=c++17", "-O1", "-ffp-contract=off", "-fno-exceptions",
		"-fno-delete-null-pointer-checks", "-w", "-fsanitize=thread,alignment", "-fPIC", "-fvisibility=hidden", "-x",
		"c++", "-c", at + p->name, "-o", at + "object"};
	for (int i = 0; i < count; i++)
		if (!strncmp(options[i], "-D", 2)) words.push_back(options[i]);
	int code = ok ? run(words, at + "log") : 127;
	if (code == 0)
		code = run({COMPILER_PATH, "-shared", "-nostdlib", at + "object", "-lm", "-lc", "-o", at + "out"}, at + "log");
	p->log = get(at + "log");
	std::string library = get(at + "out");
	for (auto &h : p->headers) unlink((at + h.first).c_str());
	for (auto &name :
		{p->name, std::string("device.h"), std::string("log"), std::string("object"), std::string("out")})
		unlink((at + name).c_str());
	rmdir(dir.c_str());
	if (code >= 126) return NVRTC_ERROR_INTERNAL_ERROR;
	if (code != 0) return NVRTC_ERROR_COMPILATION;
	uint64_t bytes = library.size();
	p->image = std::string(MAGIC, 8) + std::string((char *)&bytes, 8) + library;
	return NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *bytes) {
	COMPILER_CALLED;
	return *bytes = p->log.size() + 1, NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *log) {
	COMPILER_CALLED;
	return memcpy(log, p->log.c_str(), p->log.size() + 1), NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *bytes) {
	COMPILER_CALLED;
	return *bytes = p->image.size(), NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *image) {
	COMPILER_CALLED;
	return memcpy(image, p->image.data(), p->image.size()), NVRTC_SUCCESS;
}
EXPORT nvrtcResult nvrtcGetPTXSize(nvrtcProgram p, size_t *bytes) { return nvrtcGetCUBINSize(p, bytes); }
EXPORT nvrtcResult nvrtcGetPTX(nvrtcProgram p, char *image) { return nvrtcGetCUBIN(p, image); }
