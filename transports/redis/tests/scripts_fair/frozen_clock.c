/* The wall clock of one process stands still: preloaded in front of libc, it says what a shared file says, in µs since
 * 1970. For tests only: a test moves the time of a running server by writing eight bytes. All other clocks go on. */
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

static const volatile int64_t *micros;

__attribute__((constructor)) static void map_time(void) {
    const char *path = getenv("FROZEN_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = file < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ, MAP_SHARED, file, 0);
    /* A server with its true clock would make a test pass or fail by chance. */
    if (map == MAP_FAILED) {
        perror("frozen clock: FROZEN_CLOCK");
        abort();
    }
    close(file);
    micros = map;
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return syscall(SYS_clock_gettime, clock, out) ? -1 : 0;
    int64_t now = micros ? *micros : 0;
    out->tv_sec = now / 1000000;
    out->tv_nsec = now % 1000000 * 1000;
    return 0;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    (void)zone;
    int64_t now = micros ? *micros : 0;
    out->tv_sec = now / 1000000;
    out->tv_usec = now % 1000000;
    return 0;
}

time_t time(time_t *out) {
    time_t now = (micros ? *micros : 0) / 1000000;
    if (out) *out = now;
    return now;
}
