#!/usr/bin/env python3
"""Renders the part of results.md about the other stores.

    report_stores.py STORES_JSON     renders the part again; `run` prints the path of the file
"""

import json
import sys
from pathlib import Path
from statistics import median

from report import OTHER_STORES, number, percentile, publish_part, table, time


def spread(values):
    return [time(median(values)), time(percentile(values, 90)), time(max(values))] if values else ["", "", ""]


def ratio(store, values):
    """Returns the median from the release, divided by the median of the lower bound."""
    return median(values) / median(store["limit"]["total"]) if values else None


def rows_of_handover(store):
    rows = []
    for contender in store["contenders"].values():
        to_limit = ratio(store, contender["handover_from_release"])
        rows.append([
            f"{store['name']}: {contender['name']}",
            *spread(contender["handover_from_sigterm"]),
            *spread(contender["handover_from_release"]),
            number(to_limit, 2) if to_limit else "",
        ])
    limit = store["limit"]
    if turns := store["in_turns"]:
        to_limit = number(ratio(store, turns), 2)
        rows.append([f"{store['name']}: leasehold, in one process", "", "", "", *spread(turns), to_limit])
    return rows + [[f"{store['name']}: lower bound, {limit['name']}", "", "", "", *spread(limit["total"]), "1"]]


def rows_of_failover(store):
    return [
        [
            f"{store['name']}: {contender['name']}",
            *spread(contender["failover_past_expiry"]),
            *spread(contender["failover_after_kill"]),
        ]
        for contender in store["contenders"].values()
    ]


def markdown(results):
    stores = results["stores"].values()

    def timings(what):
        return "/".join(results["timings"][what].values())

    left_out = [f"{name} on {store['name']}" for store in stores for name in store["left_out"]]
    parts = [
        OTHER_STORES.rstrip(),
        f"Measured on {results['date']} with real servers of one node on loopback, with their default durability, all "
        f"on one machine with {results['machine']['cpus']} CPUs (load {number(results['machine']['load_before'], 2)} before "
        f"the start), in {results['rounds']} interleaved rounds.",
        f"**Graceful handover**, with {timings('handover')}: time until the standby reports that it leads. The time starts at "
        "SIGTERM of the leader, and in the second group at the leader's report that it stops, just before the release. etcdctl "
        "does not report a stop, so its time is the time at which the benchmark reads its line. A leader's process ends after the release, so the "
        "server closes its connections while the standby takes over. PostgreSQL needs some 2 ms of a CPU for each, and this "
        "machine has two CPUs for everything. The lower bound is the time from before a write, through its notification, to the "
        "answer to another write. Two bare clients in one process do so and close no connection. Compare the lower bound with a "
        "handover between two candidates in one process, from before the drop of the guard to the next guard. The last column "
        "is the ratio of the medians.",
        table(
            ["", "from SIGTERM: median", "p90", "worst", "from the release: median", "p90", "worst", "lower bound = 1"],
            [row for store in stores for row in rows_of_handover(store)],
        ),
        f"On `MemoryStore`, a handover in one process takes {time(median(results['in_memory']))} "
        f"(median; p90 {time(percentile(results['in_memory'], 90))}). Four threads need this time to wake one another on this "
        "machine. The other handovers contain this time, their lower bounds do not.",
        f"**Fail-over** after `kill -9`, with {timings('failover')}: time from the expiry of the lease, and from the kill, "
        "until the standby reports that it leads. The expiry of a leasehold lease is counted from the renewal time in its record. "
        "etcdctl has a fixed lease of one minute and renews every twenty seconds. The benchmark killed etcdctl within twenty "
        "seconds of its start.",
        table(
            ["", "past the expiry: median", "p90", "worst", "after the kill: median", "p90", "worst"],
            [row for store in stores for row in rows_of_failover(store)],
        ),
        "**Differences that no number shows**: etcd's own election needs one write for a handover, because the next "
        "candidate is already in a queue. A session lock needs no write. Such a lock has no lease: the server frees the lock when the "
        "connection ends. The kernel closes the connections of a killed process at once, so session locks are fast here. If the "
        "leader's host loses power or network, the server keeps the lock until TCP gives up, which takes two hours with "
        "Linux's default keepalive. If the leader hangs, the leader keeps the lock as long. A candidate that has lost such a lock "
        "is not notified, and there is no fencing token.",
    ]
    if left_out:
        parts.append(f"Left out, because the program is built without the store: {', '.join(left_out)}.")
    return "\n\n".join(parts) + "\n"


def claims(results):
    """Returns each claim about leasehold, and whether the claim holds in these results."""
    found = []
    for key, store in results["stores"].items():
        ours = store["contenders"].get(f"leasehold-{key}")
        if not ours:
            continue
        if store["notifies"]:
            to_limit = ratio(store, store["in_turns"])
            found.append((f"{store['name']}: handover: {to_limit:.2f} times the lower bound, at most 1.25", to_limit <= 1.25))
        late = percentile(ours["failover_past_expiry"], 99)
        found.append((f"{store['name']}: fail-over: p99 {time(late)} past the expiry, at most 100 ms", late <= 0.1))
    return found


def publish(results):
    publish_part(OTHER_STORES, markdown(results))


if __name__ == "__main__":
    publish(json.loads(Path(sys.argv[1]).read_text()))
