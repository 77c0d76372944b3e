// The limits of a process that Go's runtime cannot start with, or ends in the middle of a run with pages of its own
// state. They are looked at before the runtime starts, which by then has failed already.

#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static long processors(void) {
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? n : 1;
}

// stacks returns the size of the stacks of all threads that the runtime and the kernels start, other than those that
// wait for files.
static unsigned long long stacks(void) {
  struct rlimit l;
  unsigned long long each = 8 << 20;
  if (getrlimit(RLIMIT_STACK, &l) == 0 && l.rlim_cur != RLIM_INFINITY) each = l.rlim_cur;
  return (3 * processors() + 8) * each;
}

static void refuse(const char *what, unsigned long long has, unsigned long long needs, const char *unit, char flag) {
  fprintf(stderr, "%s: %s limited to %llu%s: it needs %llu%s on this machine: raise the limit (ulimit -%c)\n",
          program_invocation_short_name, what, has, unit, needs, unit, flag);
  exit(1);
}

// check refuses a limit below needs, in multiples of scale.
static void check(int resource, const char *what, unsigned long long needs, int scale, const char *unit, char flag) {
  struct rlimit l;
  if (getrlimit(resource, &l) == 0 && l.rlim_cur != RLIM_INFINITY && l.rlim_cur < needs)
    refuse(what, l.rlim_cur / scale, needs / scale, unit, flag);
}

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void *wait(void *unused) {
  pthread_mutex_lock(&held);
  pthread_mutex_unlock(&held);
  return unused;
}

// check_threads starts as many threads as the runtime does at once. Only trying tells: other programs of the user
// count, and so does the container's limit.
static void check_threads(void) {
  long needs = processors() + 4, n = 0;
  pthread_t *all = calloc(needs, sizeof *all);
  if (!all) return;
  int failed = 0;
  pthread_mutex_lock(&held);
  while (n < needs && !(failed = pthread_create(&all[n], NULL, wait, NULL))) n++;
  pthread_mutex_unlock(&held);
  for (long i = 0; i < n; i++) pthread_join(all[i], NULL);
  free(all);
  if (failed) refuse("the number of threads is", n, needs, "", 'u');
}

__attribute__((constructor)) static void check_limits(void) {
  check(RLIMIT_NOFILE, "the number of open files is", 32, 1, "", 'n');
  check(RLIMIT_STACK, "the stack is", 512 << 10, 1 << 10, " KiB", 's');
  check(RLIMIT_DATA, "memory is", (256ULL << 20) + stacks(), 1 << 20, " MiB", 'd');
  // With less than 1.3 GiB the runtime cannot reserve what it reserves at first.
  check(RLIMIT_AS, "the address space is", (3ULL << 29) + stacks(), 1 << 20, " MiB", 'v');
#ifdef __GLIBC__
  struct rlimit space;
  // Otherwise each thread that allocates takes 64 MiB of address space.
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) mallopt(M_ARENA_MAX, 1);
#endif
  check_threads();
}
