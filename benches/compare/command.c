/* The command of these rounds. Prints the wall clock time of its start and its process id, starts a process that stays behind when the
   command is killed, allocates the given number of megabytes, and prints `holds`. */
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
    /* Volatile, so that the compiler keeps writes that the program never reads. */
    volatile char *held = malloc(bytes);
    if (held == NULL) return 1;
    for (size_t at = 0; at < bytes; at += 4096) held[at] = 'x';
    puts("holds");
    fflush(stdout);
    for (;;) pause();
}
