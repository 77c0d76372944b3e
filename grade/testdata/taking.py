# Attacks that take more memory than all processes together may have, though each is within its own limits. If nothing
# stopped them, each would take less than 1.5 GiB.

#### memory
$MANY
def take(n): return bytearray(b'x') * (60 << 20)
many(20, take)

#### memory, with signals to all
$MANY
def take(n):
    if n > 1: return bytearray(b'x') * (60 << 20)
    while True:
        for pid in range(1, 5):
            try: os.kill(pid, signal.SIGCHLD)
            except OSError: pass
many(20, take)

#### memory of what a second thread starts
$MANY
import threading
def take(n): return bytearray(b'x') * (60 << 20)
threading.Thread(target=many, args=(20, take)).start()
signal.pause()

#### memory that moves from process to process
$MANY
def take(n):
    x = bytearray(b'x') * (100 << 20)
    while os.fork() == 0: pass
    os._exit(0)
many(10, take)

#### page tables
$MANY
$LIBC
libc.mmap.restype = ctypes.c_void_p
def take(n):
    for k in range(12000):
        at = 0x100000000000 + n * 0x40000000000 + k * 0x40200000 % 0x30000000000
        if libc.mmap(ctypes.c_void_p(at), ctypes.c_size_t(4096), 1, 0x100022, -1, ctypes.c_long(0)) == at: ctypes.string_at(at, 1)
many(8, take)

#### mappings
$MANY
$LIBC
libc.mmap.restype = ctypes.c_void_p
def take(n):
    at = libc.mmap(None, ctypes.c_size_t(60000 * 4096), 0, 0x22, -1, ctypes.c_long(0))
    for k in range(0, 60000, 2): libc.mprotect(ctypes.c_void_p(at + k * 4096), ctypes.c_size_t(4096), 1)
many(8, take)
