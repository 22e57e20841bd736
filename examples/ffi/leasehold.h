/* Leader election on a Kubernetes Lease, for C and for languages that call C.
 *
 * Every function can be called from any thread at any time. A function with the result `int` returns 0, or
 *   LEASEHOLD_NOT_YET  if the timeout has passed or the campaign is undecided;
 *   LEASEHOLD_PANIC    after a bug in the library, while the elector and its term continue;
 *   a number > 0       after an error, which never changes: 1 configuration, 2 cluster, 3 store, 4 busy,
 *                      5 stopped, 6 release timeout, 7 thread, 8 withdrawn, 9 forked child, 10 unfit.
 * leasehold_last_error() returns the text of the latest error of the calling thread.
 *
 * A child of fork() without exec() has neither the threads nor the lease. In the child, leasehold_campaign, leasehold_acquire and
 * leasehold_release fail with LEASEHOLD_FORKED, and leasehold_free does not affect the parent. leasehold_is_leader still uses the parent's deadline at the fork. A child must not call leasehold_is_leader, leasehold_take or leasehold_wait_lost.
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

/* Returns the text of the latest error of this thread, valid until its next error. Never NULL. */
const char *leasehold_last_error(void);

/* Writes the library's log to stderr. The environment variable RUST_LOG sets the level [default: info]. */
void leasehold_log_to_stderr(void);

/* Starts an elector for the Lease `name`. If `kubeconfig` is NULL, the elector uses KUBECONFIG, else the cluster of its pod, else
 * ~/.kube/config. A duration of 0 is the default, 15 s. */
int leasehold_start(const char *name, const char *kubeconfig, uint64_t lease_duration_ms, leasehold_elector_t **out);

/* Waits for a term for at most `timeout_ms`. A negative value waits forever, and 0 tries once. A thread
 * that must stop waiting at a signal uses leasehold_campaign instead. */
int leasehold_acquire(const leasehold_elector_t *elector, int64_t timeout_ms, leasehold_guard_t **out);

/* Campaigns, and calls `wake` once when the campaign is decided, on a thread of the library. An event loop then calls leasehold_take.
 * `wake` can run before this function returns, so `wake` should only notify the loop. `context` must stay valid on any thread until
 * `wake` has run. leasehold_withdraw and leasehold_free also decide a campaign. */
int leasehold_campaign(const leasehold_elector_t *elector, void (*wake)(void *context), void *context,
                       leasehold_campaign_t **out);
int leasehold_take(const leasehold_campaign_t *campaign, leasehold_guard_t **out);

/* Withdraws an undecided campaign, and frees the campaign. Accepts NULL. */
void leasehold_withdraw(leasehold_campaign_t *campaign);

/* Frees an elector, and ends its campaign with LEASEHOLD_STOPPED. Accepts NULL. A guard remains valid. No other call may use the
 * elector during or after this call. */
void leasehold_free(leasehold_elector_t *elector);

/* Returns true while the term is valid. Once false, the result stays false. Call before each unit of work: one atomic load and one
 * clock read. */
bool leasehold_is_leader(const leasehold_guard_t *guard);

/* Returns the fencing token, which is greater than that of every earlier term. A resource must refuse a lower token. */
uint64_t leasehold_token(const leasehold_guard_t *guard);

/* Waits for the end of the term for at most `timeout_ms`. Returns true if the term has ended. */
bool leasehold_wait_lost(const leasehold_guard_t *guard, uint64_t timeout_ms);

/* Releases the lease and frees the guard. Accepts NULL. */
int leasehold_release(leasehold_guard_t *guard);

#ifdef __cplusplus
}
#endif

#endif
