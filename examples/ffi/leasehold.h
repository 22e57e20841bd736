/* Leader election on a Kubernetes Lease, for C and for whatever calls C.
 *
 * Every function may be called from any thread at any time. Those that return `int` give 0, or
 *   LEASEHOLD_NOT_YET  there is no term yet: the time has passed, or the campaign is not decided;
 *   LEASEHOLD_PANIC    a fault in the library: what went on then goes on;
 *   a number > 0       an error, by the numbers of `Error::code`, which never change.
 * What went wrong last in a thread is told by leasehold_last_error() there.
 *
 * A child made by fork() without exec() has neither the threads nor the lease. There leasehold_campaign, leasehold_acquire and
 * leasehold_release fail with LEASEHOLD_FORKED, and what stops or frees does nothing to the parent. leasehold_is_leader goes on
 * to say what the parent was told: do not ask it there, nor take a guard, nor wait for the end of a term.
 */
#ifndef LEASEHOLD_H
#define LEASEHOLD_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    LEASEHOLD_PANIC = -2,
    LEASEHOLD_NOT_YET = -1,
    LEASEHOLD_OK = 0,
    LEASEHOLD_CONFIG = 1,
    LEASEHOLD_CLUSTER = 2,
    LEASEHOLD_STORE = 3,
    LEASEHOLD_BUSY = 4,
    LEASEHOLD_STOPPED = 5,
    LEASEHOLD_RELEASE_TIMEOUT = 6,
    LEASEHOLD_THREAD = 7,
    LEASEHOLD_WITHDRAWN = 8,
    LEASEHOLD_FORKED = 9,
    LEASEHOLD_UNFIT = 10,
};

typedef struct leasehold_elector leasehold_elector_t;
typedef struct leasehold_campaign leasehold_campaign_t;
typedef struct leasehold_guard leasehold_guard_t;

/* What went wrong last in this thread; until its next failure. Never NULL. */
const char *leasehold_last_error(void);

/* Has the library's log written to stderr, as the environment variable RUST_LOG says. */
void leasehold_log_to_stderr(void);

/* Begins a candidacy for the Lease `name`. A `kubeconfig` of NULL finds the cluster: KUBECONFIG, else in-cluster, else
 * ~/.kube/config; a duration of 0 is the default of 15 s. */
int leasehold_start(const char *name, const char *kubeconfig, uint64_t lease_duration_ms, leasehold_elector_t **out);

/* Waits for a term: at most so long, or (< 0) for as long as it takes; with 0 it tries once. */
int leasehold_acquire(const leasehold_elector_t *elector, int64_t timeout_ms, leasehold_guard_t **out);

/* Campaigns, and calls `wake` once when that is decided, on a thread that is none of the caller's: for an event loop, which
 * calls leasehold_take then. It may come before this returns, so that the loop is what should take. `context` stays until it
 * has come, and any thread may use it. A campaign is decided by leasehold_withdraw, leasehold_stop and leasehold_free, too. */
int leasehold_campaign(const leasehold_elector_t *elector, void (*wake)(void *context), void *context,
                       leasehold_campaign_t **out);
int leasehold_take(const leasehold_campaign_t *campaign, leasehold_guard_t **out);

/* Withdraws a campaign, unless it is decided, and frees it, or NULL. */
void leasehold_withdraw(leasehold_campaign_t *campaign);

/* Ends what waits in leasehold_acquire, and every later campaign, with LEASEHOLD_STOPPED. */
void leasehold_stop(const leasehold_elector_t *elector);

/* Frees an elector, or NULL. A guard outlives it. */
void leasehold_free(leasehold_elector_t *elector);

/* The safety check, right before each piece of work: one atomic load and one clock read. False for good once false. */
bool leasehold_is_leader(const leasehold_guard_t *guard);

/* Greater than that of every term before: what is written to is to refuse a lower one. */
uint64_t leasehold_token(const leasehold_guard_t *guard);

/* Waits for the end of the term, at most so long; whether it has ended. */
bool leasehold_wait_lost(const leasehold_guard_t *guard, uint64_t timeout_ms);

/* Releases the lease and frees the guard, or NULL. */
int leasehold_release(leasehold_guard_t *guard);

#ifdef __cplusplus
}
#endif

#endif
