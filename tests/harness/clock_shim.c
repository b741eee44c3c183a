/* Moves the clocks of one process: preloaded in front of libc, it adds offsets from a shared file to what the kernel
 * says. For tests only. The file is mapped once and read at every call, so a test moves a running server's clock by
 * writing eight bytes. Layout, little-endian int64, in nanoseconds: [0] realtime, [1] monotonic, [2] boottime.
 *
 * Only callers of libc are moved: a program that asks the kernel or the vDSO itself (rustix does) keeps its clock. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { REALTIME, MONOTONIC, BOOTTIME, FILE_BYTES = 4096 };
static const int64_t SECOND = 1000000000;

static const volatile int64_t *offsets;

__attribute__((constructor)) static void map_offsets(void) {
    const char *path = getenv("CLOCKSHIM");
    if (!path) return;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    void *map = file < 0 ? MAP_FAILED : mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, file, 0);
    /* A server that silently kept its true clock would make a test of clock steps pass for nothing. */
    if (map == MAP_FAILED) {
        perror("clock shim: CLOCKSHIM");
        abort();
    }
    close(file);
    offsets = map;
}

static int64_t offset_of(clockid_t clock) {
    if (!offsets) return 0;
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        return offsets[REALTIME];
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_MONOTONIC_RAW:
        return offsets[MONOTONIC];
    case CLOCK_BOOTTIME:
        return offsets[BOOTTIME];
    default:
        return 0; /* CPU time is nobody's wall clock. */
    }
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    if (syscall(SYS_clock_gettime, clock, out)) return -1;
    int64_t now = out->tv_sec * SECOND + out->tv_nsec + offset_of(clock);
    out->tv_sec = now / SECOND;
    out->tv_nsec = now % SECOND;
    return 0;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    (void)zone;
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
