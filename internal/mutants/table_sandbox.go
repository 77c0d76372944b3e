package main

// Tests that find the faults of this area.
const (
	attacked = "./data -run ^TestAttacks$"
	reached  = "./data -run ^TestAttacks$/^as_nobody"
)

const (
	enterGo  = "internal/sandbox/enter_linux.go"
	startGo  = "internal/sandbox/sandbox_linux.go"
	callsGo  = "internal/sandbox/calls_linux.go"
	freshGo  = "internal/sandbox/fresh_linux.go"
	memoryGo = "internal/sandbox/memory_linux.go"
	groupGo  = "internal/sandbox/group_linux.go"
	pairGo   = "data/grade_pair.go"
	checkPy  = "data/check.py"
	farPy    = "data/remote.py"

	left     = "./data -run ^TestNothingRemains$"
	takenAll = "./data -run ^TestMemoryOfAll$"
	inGroup  = "./internal/sandbox -run ^TestGroup$"
)

// sandboxMutants are the faults of running the code of answers.
var sandboxMutants = []mutant{
	{"sandbox/the-network-is-shared", startGo, "unix.CLONE_NEWNS | unix.CLONE_NEWNET |", "unix.CLONE_NEWNS |", "./internal/sandbox"},
	{"sandbox/names-are-shared", startGo, "unix.CLONE_NEWIPC | unix.CLONE_NEWUTS", "unix.CLONE_NEWIPC", "./internal/sandbox"},
	{"sandbox/root-stays-root", startGo, "p.ID = nobody", "p.ID = 0", attacked},
	{"sandbox/a-hidden-process-starts-none", startGo, "if hiders > 0 {", "if hiders > 1<<30 {", reached},
	{"sandbox/nothing-is-hidden", startGo, "set(1, 0)", "set(1, 1)", reached},
	{"sandbox/a-refusal-is-a-failure", startGo, "exit.ExitCode() == refused", "exit.ExitCode() == refused+1", "./internal/sandbox"},
	{"sandbox/folders-can-be-written", enterGo, "uint64(unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID)", "uint64(unix.MOUNT_ATTR_NOSUID)", reached},
	{"sandbox/setuid-programs", enterGo, "uint64(unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID)", "uint64(unix.MOUNT_ATTR_RDONLY)", reached},
	{"sandbox/the-old-root-stays", enterGo, "unix.Unmount(old, unix.MNT_DETACH)", "error(nil)", "./internal/sandbox"},
	{"sandbox/as-many-files-as-it-likes", freshGo, ",nr_inodes=64", "", reached},
	{"sandbox/capabilities-can-be-gained", enterGo, "range uintptr(unix.CAP_LAST_CAP + 24)", "range uintptr(0)", reached},
	{"sandbox/new-privileges", enterGo, "unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)", "error(nil)", "./internal/sandbox"},
	{"sandbox/it-outlives-who-started-it", enterGo, "unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL)", "unix.PR_SET_PDEATHSIG, uintptr(0)", "./data -run ^TestKilled$"},
	{"sandbox/open-files-are-inherited", enterGo, "unix.CloseRange(3, 1<<31, unix.CLOSE_RANGE_CLOEXEC)", "error(nil)", "./internal/sandbox"},
	{"sandbox/sockets", callsGo, "unix.SYS_GETSOCKNAME, ", "unix.SYS_GETSOCKNAME, unix.SYS_SOCKET, ", "./internal/sandbox -run ^TestCalls$"},
	{"sandbox/shared-memory", callsGo, "{3, unix.MAP_TYPE | unix.MAP_HUGETLB, false, []uint32{unix.MAP_PRIVATE}}", "{3, unix.MAP_TYPE | unix.MAP_HUGETLB, false, []uint32{unix.MAP_PRIVATE, unix.MAP_SHARED}}", "./internal/sandbox -run ^TestCalls$"},
	{"sandbox/huge-pages", callsGo, "unix.MAP_TYPE | unix.MAP_HUGETLB", "unix.MAP_TYPE", "./internal/sandbox -run ^TestCalls$"},
	{"sandbox/namespaces-of-children", callsGo, "unix.CLONE_NEWCGROUP, false, []uint32{0}", "unix.CLONE_NEWCGROUP, false, []uint32{0, unix.CLONE_NEWUSER}", "./internal/sandbox -run ^TestCalls$"},
	{"sandbox/clone3", callsGo, "unless(unix.BPF_JEQ, unix.SYS_CLONE3, 1)", "unless(unix.BPF_JEQ, 1<<29, 1)", "./internal/sandbox -run ^TestCalls$"},
	{"sandbox/limits-of-others", callsGo, "{0, all, false, []uint32{0}}, {1, all", "{0, 0, false, []uint32{0}}, {1, all", "./internal/sandbox -run ^TestCalls$"},

	{"sandbox/no-end-in-time", pairGo, "set(deadline)\n", "\n", "./data -run ^TestGradeEnds$ -timeout 60s"},
	{"sandbox/not-stopped-with-its-caller", pairGo, "set(time.Unix(1, 0))", "set(deadline)", "./data -run ^TestGradeStops$ -timeout 60s"},
	{"sandbox/right-with-processes-left", pairGo, "case v.Right && f.Left != nil && *f.Left:", "case false:", attacked},
	{"sandbox/a-folder-with-files-goes-on", checkPy, "self.apart = bool(plan)", "self.apart = False", left},
	{"sandbox/unprotected-unasked", "data/grade.go", "return grade(ctx, python, trials, true)", "return grade(ctx, python, trials, false)", reached},
	{"sandbox/bench-runs-unprotected", "cmd/bench/quality/run.go", "if o.Unprotected {", "if true {", "./cmd/bench -run ^TestNoSandbox$"},
	{"sandbox/bench-has-no-way-out", "cmd/bench/quality.go", "errors.Is(err, sandbox.ErrUnavailable)", "errors.Is(err, sandbox.ErrUnavailable) && false", "./cmd/bench -run ^TestNoSandbox$"},

	{"sandbox/no-limit-of-files", checkPy, "\"FSIZE\": 0", "\"FSIZE\": 1", reached},
	{"sandbox/no-limit-of-processes", checkPy, "limits[\"NPROC\"] = PROCESSES", "limits[\"NPROC\"] = 999", reached},
	{"sandbox/no-limit-of-memory", checkPy, "\"AS\": MEMORY", "\"AS\": MEMORY << 9", reached},
	{"sandbox/no-limit-of-memory-of-all", pairGo, "if used > allMemory {", "if used > allMemory<<9 {", "./data -run ^TestMemoryOfAll$"},
	{"sandbox/no-processes-of-its-own", freshGo, "unix.SYS_UNSHARE, unix.CLONE_NEWPID}", "unix.SYS_UNSHARE, 0}", left},
	{"sandbox/page-tables-are-free", memoryGo, ", \"VmPTE:\")", ")", takenAll},
	{"sandbox/mappings-are-free", memoryGo, "perMapping = 4 << 10", "perMapping = 1", takenAll},
	{"sandbox/children-are-free", memoryGo, "left = append(left, strings.Fields(string(children))...)", "_ = children", takenAll},
	{"sandbox/groups-are-left-behind", groupGo, "\t\tdirs = append(dirs, lines.Text())\n", "", inGroup},
	{"sandbox/groups-without-a-limit", groupGo, "most := strconv.Itoa(limit)", "most := strconv.Itoa(limit << 9)", inGroup},
	{"sandbox/groups-of-others", groupGo, "slices.Contains(strings.Fields(string(control)), \"memory\")", "len(control) >= 0", "./internal/sandbox -run ^TestGroupParents$"},
	{"sandbox/no-limit-of-open-files", checkPy, "\"NOFILE\": FILES", "\"NOFILE\": FILES << 1", reached},
	{"sandbox/core-files", callsGo, "{1, all, true, []uint32{unix.RLIMIT_CORE}}", "{1, all, true, []uint32{99}}", "./internal/sandbox -run ^TestCalls$"},
	{"sandbox/calls-yet-to-come", callsGo, "append(program, refuse)", "append(program, allow)", "./internal/sandbox -run ^TestCalls$"},
	{"sandbox/pipes-grow", callsGo, "unix.F_GETPIPE_SZ}", "unix.F_GETPIPE_SZ, unix.F_SETPIPE_SZ}", "./internal/sandbox -run ^TestCalls$"},
	{"sandbox/children-live-on", checkPy, "os.kill(-1, signal.SIGKILL) if alone", "os.kill(-1, 0) if alone", "./data -run ^TestCheckPy$"},
	{"sandbox/builtins-of-the-answer", checkPy, "if not hasattr(builtins, name) and name != \"__builtins__\"}\n    namespace.update", "}\n    namespace.update", attacked},
	{"sandbox/functions-of-the-check-are-open", checkPy, "if name not in (\"__name__\", \"__qualname__\", \"__doc__\", \"__module__\"):", "if False:", attacked},
	{"sandbox/the-answer-may-ask-for-anything", checkPy, "{\"call\": DOES[\"call\"], \"getattr\": name_of}", "DOES", attacked},
	{"sandbox/an-error-without-end", checkPy, "f\"{type(error).__name__}: {text}\" if text else type(error).__name__)[:TEXT]", "f\"{type(error).__name__}: {text}\" if text else type(error).__name__)", attacked},
	{"sandbox/messages-without-end", farPy, "or size > MESSAGE:", "or False:", attacked},
	{"sandbox/equality-is-the-answers", farPy, "return NotImplemented if data is None else getattr(operator, name)(data, other)", "return peer_of(self).ask(name, self, other)", attacked},
	{"sandbox/arithmetic-is-the-answers", farPy, "if not is_remote(other) or inside(self, \"_derived\") or inside(other, \"_derived\"):", "if False:", attacked},
	{"sandbox/numbers-of-what-saw-data", farPy, "if inside(self, \"_derived\"):\n            raise", "if False:\n            raise", attacked},
	{"sandbox/membership-is-the-answers", farPy, "if inside(self, \"_made\") or is_remote(item):", "if True:", attacked},
	{"sandbox/changed-arguments-are-lost", farPy, "            change(args[index], self.unpack(value))\n", "            pass\n", "./data -run ^TestRemote$"},
	{"sandbox/printing-in-a-call-is-lost", farPy, "sys.stdout.write(message[\"printed\"])", "pass", "./data -run ^TestRemote$"},
}
