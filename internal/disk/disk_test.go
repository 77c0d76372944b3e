package disk

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"restyle/internal/expect"
)

// The test binary also plays the other process: job selects what that process does, and at which path.
const job, at = "DISK_TEST_JOB", "DISK_TEST_PATH"

func TestMain(m *testing.M) {
	path := os.Getenv(at)
	switch os.Getenv(job) {
	case "":
		os.Exit(m.Run())
	case "lock":
		_, err := Lock(path)
		fmt.Println(err)
	case "create":
		p, err := Create(path, 0o666)
		if err == nil {
			_, err = p.WriteString("half")
		}
		fmt.Println(err)
	}
	bufio.NewReader(os.Stdin).ReadString('\n') // until the process is killed
}

// other starts a process that does a job, and returns what the process prints. The process runs until end kills it.
func other(t *testing.T, what, path string) (said string, end func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), job+"="+what, at+"="+path)
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	expect.OK(t, errors.Join(err1, err2))
	expect.OK(t, cmd.Start())
	end = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
		in.Close()
	})
	t.Cleanup(end)
	line, err := bufio.NewReader(out).ReadString('\n')
	expect.OK(t, err)
	return strings.TrimSpace(line), end
}

func folder(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	expect.OK(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func put(t *testing.T, path, text string) {
	t.Helper()
	expect.OK(t, os.WriteFile(path, []byte(text), 0o666))
}

// calls records the calls that change the disk, as "op name name", without directories and random names. Calls with an
// error in fail return that error.
func calls(t *testing.T, fail map[string]error) (list *[]string) {
	list = new([]string)
	stop := Watch(func(op string, names ...string) error {
		call := op
		for _, name := range names {
			if name = filepath.Base(name); IsPending(name) {
				name = "TEMP"
			}
			call += " " + name
		}
		*list = append(*list, call)
		return fail[call]
	})
	t.Cleanup(stop)
	return list
}

// TestFree compares Free with df, allowing for what others may write in the meantime.
func TestFree(t *testing.T) {
	dir := t.TempDir()
	out, err := exec.Command("df", "-Pk", dir).Output()
	if err != nil {
		t.Skip("there is no df: ", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	fields := strings.Fields(lines[len(lines)-1])
	kib, err := strconv.ParseInt(fields[len(fields)-3], 10, 64)
	if err != nil {
		t.Skip(string(out))
	}
	for _, dir := range []string{dir, filepath.Join(dir, "not", "yet")} {
		if n, err := Free(dir); err != nil || n < kib<<9 || n > kib<<11 {
			t.Errorf("%s: %d bytes, df says %d KiB: %v", dir, n, kib, err)
		}
	}
	if shm, err := Free("/dev/shm"); err == nil { // usually a file system of its own
		if n, err := Free("/dev/shm/not/yet"); err != nil || n < shm/2 || n > 2*shm {
			t.Errorf("%d bytes, or %d, %v", shm, n, err)
		}
	}
	file := filepath.Join(dir, "file")
	put(t, file, "")
	if _, err := Free(filepath.Join(file, "x")); !errors.Is(err, syscall.ENOTDIR) {
		t.Error(err)
	}
}

// TestRenameIn checks that the new name is durable.
func TestRenameIn(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	expect.OK(t, err)
	defer root.Close()
	put(t, filepath.Join(dir, "x"), "")
	list := calls(t, nil)
	expect.OK(t, RenameIn(root, "x", "y"))
	if want := []string{"rename x y", "syncdir ."}; !slices.Equal(*list, want) {
		t.Errorf("%q, want %q", *list, want)
	}
}
