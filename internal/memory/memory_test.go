package memory

import (
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
)

const gib = 1 << 30

// tree returns a root directory with these files.
func tree(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, data := range files {
		m[name] = &fstest.MapFile{Data: []byte(data)}
	}
	return m
}

func TestFreeIn(t *testing.T) {
	const machine = "MemTotal:       24684236 kB\nMemFree:         1048576 kB\nMemAvailable:   20971520 kB\n" // 20 GiB
	for name, c := range map[string]struct {
		files map[string]string
		bytes int
		whose string
	}{
		"no control groups": {nil, 20 * gib, "this machine"},
		"a limit of the address space": {map[string]string{
			"proc/self/limits": "Limit                     Soft Limit           Hard Limit           Units     \n" +
				"Max cpu time              unlimited            unlimited            seconds   \n" +
				"Max address space         4294967296           8589934592           bytes     \n",
			"proc/self/status": "VmPeak:  3145728 kB\nVmSize:  1048576 kB\n",
		}, 3 * gib, "the limit of the address space (ulimit -v)"},
		"no limit of the address space": {map[string]string{
			"proc/self/limits": "Max address space         unlimited            unlimited            bytes     \n",
			"proc/self/status": "VmSize:  1048576 kB\n",
		}, 20 * gib, "this machine"},
		"version 2, no limit": {map[string]string{
			"proc/self/cgroup":               "0::/a\n",
			"sys/fs/cgroup/a/memory.max":     "max\n",
			"sys/fs/cgroup/a/memory.current": "1073741824\n",
		}, 20 * gib, "this machine"},
		"version 2, files in the cache": {map[string]string{
			"proc/self/cgroup":               "0::/a\n",
			"sys/fs/cgroup/a/memory.max":     "8589934592\n", // limit 8 GiB; 6 GiB are used, and files take 2 and 1 of those
			"sys/fs/cgroup/a/memory.current": "6442450944\n",
			"sys/fs/cgroup/a/memory.stat": "anon 3221225472\nfile 3221225472\ninactive_file 2147483648\nactive_file " +
				"1073741824\n",
		}, 5 * gib, "control group /a"},
		"version 2, a group above has less": {map[string]string{
			"proc/self/cgroup":                   "0::/a/b/c\n",
			"sys/fs/cgroup/a/b/c/memory.max":     "8589934592\n",
			"sys/fs/cgroup/a/b/c/memory.current": "0\n",
			"sys/fs/cgroup/a/memory.max":         "4294967296\n",
			"sys/fs/cgroup/a/memory.current":     "1073741824\n",
		}, 3 * gib, "control group /a"},
		"version 2, a container whose path is that outside": {map[string]string{
			"proc/self/cgroup":             "0::/docker/0123\n",
			"sys/fs/cgroup/memory.max":     "2147483648\n",
			"sys/fs/cgroup/memory.current": "1073741824\n",
		}, gib, "control group /"},
		"version 1": {map[string]string{
			"proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/x\n0::/\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "4294967296\n",
			"sys/fs/cgroup/memory/x/memory.usage_in_bytes": "3221225472\n",
			"sys/fs/cgroup/memory/x/memory.stat": "inactive_file 5\ntotal_inactive_file " +
				"1073741824\ntotal_active_file 536870912\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "9663676416\n",
		}, 5 * gib / 2, "control group /x"},
		"version 1, another controller": {map[string]string{
			"proc/self/cgroup": "5:memory_of_others:/x\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "4294967296\n",
			"sys/fs/cgroup/memory/x/memory.usage_in_bytes": "3221225472\n",
		}, 20 * gib, "this machine"},
		"beyond the limit": {map[string]string{
			"proc/self/cgroup":             "0::/\n",
			"sys/fs/cgroup/memory.max":     "1073741824\n",
			"sys/fs/cgroup/memory.current": "2147483648\n",
		}, 0, "control group /"},
		"a limit and no usage": {map[string]string{
			"proc/self/cgroup":         "0::/\n",
			"sys/fs/cgroup/memory.max": "1073741824\n",
		}, 20 * gib, "this machine"},
	} {
		t.Run(name, func(t *testing.T) {
			files := tree(c.files)
			files["proc/meminfo"] = &fstest.MapFile{Data: []byte(machine)}
			bytes, whose, ok := freeIn(files)
			if bytes != c.bytes || whose != c.whose || !ok {
				t.Errorf("%d of %q, %v, want %d of %q", bytes, whose, ok, c.bytes, c.whose)
			}
		})
	}
	if bytes, _, ok := freeIn(tree(nil)); ok {
		t.Errorf("%d bytes where nothing is known", bytes)
	}
	if bytes, _, ok := freeIn(tree(map[string]string{"proc/meminfo": "MemAvailable:\n"})); ok {
		t.Errorf("%d bytes of an empty line", bytes)
	}
}

// TestFree checks Free on the machine that runs the test.
func TestFree(t *testing.T) {
	bytes, whose, ok := Free()
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("it is not known on", runtime.GOOS)
	}
	if !ok || bytes < 0 || bytes > 1<<50 || !strings.Contains(whose, "machine") &&
		!strings.HasPrefix(whose, "control group /") && !strings.Contains(whose, "ulimit") {
		t.Errorf("%d bytes of %q, %v", bytes, whose, ok)
	}
	if runtime.GOOS == "linux" && (Resident() < 1<<18 || Resident() > 1<<40) {
		t.Errorf("%d bytes are resident", Resident())
	}
}
