/* What `leasehold run` and others run in these rounds: it prints by the wall clock when it begins, and its number; then it starts a
   process that it leaves behind when it is killed, holds so many megabytes, and says so. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **arguments) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    printf("%lld.%09ld %d\n", (long long)now.tv_sec, now.tv_nsec, (int)getpid());
    fflush(stdout);
    if (fork() == 0) {
        for (;;) pause();
    }
    size_t bytes = strtoul(count > 1 ? arguments[1] : "0", NULL, 10) * 1000000;
    /* Volatile, lest the compiler leave out what nobody reads. */
    volatile char *held = malloc(bytes);
    if (held == NULL) return 1;
    for (size_t at = 0; at < bytes; at += 4096) held[at] = 'x';
    puts("holds");
    fflush(stdout);
    for (;;) pause();
}
