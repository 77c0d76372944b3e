package kernels

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels/cuda"
	"restyle/kernels/cuda/cudatest"
	"restyle/tensor"
)

// rankVariable makes the test binary one of the ranks of TestComm_OfSeveral. Its value is the rank.
const rankVariable = "RESTYLE_TEST_RANK"

const commRanks = 3

// commDevice returns the device of a rank.
func commDevice(rank int) string {
	if name := os.Getenv("RESTYLE_TEST_DEVICE"); name != "" && name != "emulated" {
		return fmt.Sprintf("%s:%d", name, rank)
	}
	return "emulated"
}

// TestComm_OfSeveral runs everyTogether on three GPUs, each in its own process: emulated GPUs, or with
// RESTYLE_TEST_DEVICE=cuda the machine's first three.
func TestComm_OfSeveral(t *testing.T) {
	cudatest.Once(t)
	last := commDevice(commRanks - 1)
	if d, err := Open(last, Options{OwnProducts: true}); err != nil && (last != "emulated" ||
		errors.Is(err, cuda.ErrNoCompiler)) {
		t.Skip(err)
	} else if err != nil || d.Close() != nil {
		t.Fatal(err)
	}
	from, to, err := os.Pipe()
	expect.OK(t, err)
	var ranks [commRanks]*exec.Cmd
	var said [commRanks]bytes.Buffer
	for r := range ranks {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), rankVariable+"="+strconv.Itoa(r))
		c.Stdout, c.Stderr, c.ExtraFiles = &said[r], &said[r], []*os.File{from, to}
		expect.OK(t, c.Start())
		ranks[r] = c
		t.Cleanup(func() { _ = c.Process.Kill() })
	}
	from.Close()
	to.Close()
	for r, c := range ranks {
		if err := c.Wait(); err != nil {
			t.Errorf("rank %d: %v\n%s", r, err, &said[r])
		}
	}
}

// beRank is the process of a rank, and returns its exit code.
func beRank() (code int) {
	rank, _ := strconv.Atoi(os.Getenv(rankVariable))
	from, to := os.NewFile(3, "pipe"), os.NewFile(4, "pipe")
	share := func(id []byte) (_ []byte, err error) { // rank 0 writes it for each of the others
		if rank == 0 {
			_, err = to.Write(bytes.Repeat(id, commRanks-1))
			return id, err
		}
		id = make([]byte, 128)
		_, err = io.ReadFull(from, id)
		return id, err
	}
	for _, x := range everyTogether {
		if x.fails != "" && commDevice(rank) != "emulated" {
			continue // NCCL itself waits forever
		}
		if err := runTogether(rank, share, x.run); x.fails != "" && !x.well(rank) {
			if err == nil || !strings.Contains(err.Error(), x.fails) {
				fmt.Printf("%s: the error is %v, want %s\n", x.name, err, x.fails)
				code = 1
			}
		} else if err != nil {
			fmt.Printf("%s: %v\n", x.name, err)
			code = 1
		}
	}
	return code
}

// A together is what the process of each rank runs on its GPU.
type together func(a *Arena, c *Comm, rank int) error

func runTogether(rank int, share func([]byte) ([]byte, error), run together) error {
	d, err := Open(commDevice(rank), Options{OwnProducts: true})
	if err != nil {
		return err
	}
	defer d.Close()
	a, err := d.NewArena("test", 1<<22)
	if err != nil {
		return err
	}
	defer a.Close()
	c, _, err := d.OpenComm(rank, commRanks, share)
	if err != nil {
		return err
	}
	return errors.Join(run(a, c, rank), d.Sync(), c.Close())
}

// everyTogether lists what ranks do together. A rank for which well is true notices nothing of what fails.
var everyTogether = []struct {
	name  string
	run   together
	fails string
	well  func(rank int) bool
}{
	{"SumTo", sumTo, "", nil},
	{"Spread", spread, "", nil},
	{"Exchange", exchange, "", nil},
	{"other counts", func(a *Arena, c *Comm, rank int) error {
		c.SumTo([][]tensor.Tensor{{a.New("x", tensor.F32, 5+rank)}, nil, nil}, nil)
		return nil
	}, "the ranks do different things", nobody},
	{"other types", func(a *Arena, c *Comm, rank int) error {
		c.SumTo([][]tensor.Tensor{{a.New("x", []tensor.DType{tensor.F32, tensor.BF16, tensor.F32}[rank], 4)}, nil, nil}, nil)
		return nil
	}, "the ranks do different things", nobody},
	{"other roots", func(a *Arena, c *Comm, rank int) error {
		lists := make([][]tensor.Tensor, commRanks)
		lists[rank] = []tensor.Tensor{a.New("x", tensor.F32, 4)}
		c.Spread(lists)
		return nil
	}, "the ranks do different things", nobody},
	{"other lengths of an exchange", func(a *Arena, c *Comm, rank int) error {
		from, to := make([][]tensor.Tensor, commRanks), make([][]tensor.Tensor, commRanks)
		switch rank {
		case 0:
			to[1] = []tensor.Tensor{a.New("x", tensor.F32, 3)}
		case 1:
			from[0] = []tensor.Tensor{a.New("x", tensor.F32, 4)}
		}
		c.Exchange(from, to)
		return nil
	}, "the ranks exchange different things", func(rank int) bool { return rank == 2 }},
}

func nobody(int) bool { return false }

// commValue returns element i of a rank's tensor. BF16 has sums of three such numbers, so that their order does not
// matter.
func commValue(rank, i int) float64 { return float64((7*i+5*rank)%64-32) / 4 }

// commSum returns element i of the sum over the ranks.
func commSum(i int) (sum float64) {
	for r := range commRanks {
		sum += commValue(r, i)
	}
	return sum
}

// commBytes returns the bytes of n elements.
func commBytes(t tensor.DType, n int, value func(i int) float64) (b []byte) {
	for i := range n {
		switch v := value(i); t {
		case tensor.F64:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		case tensor.F32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		default:
			b = binary.LittleEndian.AppendUint16(b, tensor.BF16FromF32(float32(v)))
		}
	}
	return b
}

// hasBytes returns an error unless a tensor has these bytes.
func hasBytes(c *Comm, x tensor.Tensor, want []byte) error {
	got := make([]byte, x.Bytes())
	if err := c.d.DownloadBytes(got, x); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%v has other bytes than it should", x)
	}
	return nil
}

// sumTo sums tensors that are longer than what is added up at a time, and empty ones; rank 0 gets the sums in separate
// tensors, and rank 1 gets nothing.
func sumTo(a *Arena, c *Comm, rank int) (err error) {
	byRank := [][]tensor.Tensor{
		{a.New("x", tensor.F32, 5), a.New("x", tensor.BF16, 7), a.New("x", tensor.F64, 3)},
		nil,
		{a.New("x", tensor.F32, 70001), a.New("x", tensor.BF16, 0), a.New("x", tensor.F64, 33333)},
	}
	for _, list := range byRank {
		for _, x := range list {
			c.d.UploadBytes(x, commBytes(x.DType, x.Len(), func(i int) float64 { return commValue(rank, i) }))
		}
	}
	var into []tensor.Tensor
	if rank == 0 {
		for _, x := range byRank[0] {
			into = append(into, a.New("into", x.DType, x.Len()))
		}
	}
	c.SumTo(byRank, into)
	err = c.Wait()
	for _, x := range into {
		err = errors.Join(err, hasBytes(c, x, commBytes(x.DType, x.Len(), commSum)))
	}
	for root, list := range byRank {
		for _, x := range list {
			value := func(i int) float64 { return commValue(rank, i) } // it stays
			if root == rank && into == nil {
				value = commSum
			}
			err = errors.Join(err, hasBytes(c, x, commBytes(x.DType, x.Len(), value)))
		}
	}
	return err
}

// numbered returns n bytes that depend on two ranks.
func numbered(n, from, to int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(7*i + 31*from + 5*to)
	}
	return b
}

// spread spreads tensors of types that cannot be summed.
func spread(a *Arena, c *Comm, rank int) (err error) {
	byRank := [][]tensor.Tensor{
		{a.New("x", tensor.U8, 300001), a.New("x", tensor.I32, 3)},
		{a.New("x", tensor.F16, 1), a.New("x", tensor.F32, 0)},
		nil,
	}
	for _, list := range byRank {
		for _, x := range list {
			c.d.UploadBytes(x, numbered(x.Bytes(), rank, 0))
		}
	}
	c.Mark(0)
	c.Spread(byRank)
	c.Mark(0)
	err = c.WaitFor(0)
	for root, list := range byRank {
		for _, x := range list {
			err = errors.Join(err, hasBytes(c, x, numbered(x.Bytes(), root, 0)))
		}
	}
	return err
}

// exchange sends two tensors from each rank to each other one, except from rank 1 to rank 0.
func exchange(a *Arena, c *Comm, rank int) (err error) {
	lists := func(pair func(other int) (from, to int)) (all [][]tensor.Tensor) {
		for other := range commRanks {
			from, to := pair(other)
			if other == rank || from == 1 && to == 0 {
				all = append(all, nil)
				continue
			}
			all = append(all, []tensor.Tensor{a.New("x", tensor.U8, 300001*from+to), a.New("x", tensor.I32, 1+from)})
		}
		return all
	}
	from := lists(func(other int) (int, int) { return other, rank })
	to := lists(func(other int) (int, int) { return rank, other })
	for other, list := range to {
		for _, x := range list {
			c.d.UploadBytes(x, numbered(x.Bytes(), rank, other))
		}
	}
	c.Exchange(from, to)
	err = c.Wait()
	for other, list := range from {
		for _, x := range list {
			err = errors.Join(err, hasBytes(c, x, numbered(x.Bytes(), other, rank)))
		}
	}
	return err
}
