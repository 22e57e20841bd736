/* Leads for a moment and releases the lease. */
#include <stdio.h>

#include "leasehold.h"

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, leasehold_last_error());
    return 1;
}

int main(int argc, char **argv)
{
    leasehold_elector_t *elector;
    leasehold_guard_t *guard;

    if (leasehold_start("from-c", argc > 1 ? argv[1] : NULL, 0, &elector) != LEASEHOLD_OK)
        return failed("start");
    if (leasehold_acquire(elector, 60000, &guard) != LEASEHOLD_OK)
        return failed("acquire");
    printf("leads, with token %llu\n", (unsigned long long)leasehold_token(guard));
    for (int unit = 0; unit < 3 && leasehold_is_leader(guard); unit++)
        leasehold_wait_lost(guard, 100); /* one unit of work */
    if (leasehold_release(guard) != LEASEHOLD_OK)
        return failed("release");
    printf("released\n");
    leasehold_free(elector);
    return 0;
}
