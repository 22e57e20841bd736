#!/usr/bin/env python3
"""The part of results.md about the other stores.

    report_stores.py STORES_JSON     renders it again; `run` says where it left the file
"""

import json
import sys
from pathlib import Path
from statistics import median

from report import OTHER_STORES, number, percentile, publish_part, table, time


def spread(values):
    return [time(median(values)), time(percentile(values, 90)), time(max(values))] if values else ["", "", ""]


def ratio(store, values):
    """That of the medians: how many times the limit it takes from the release."""
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
    return rows + [[f"{store['name']}: the limit, {limit['name']}", "", "", "", *spread(limit["total"]), "1"]]


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
        f"Measured on {results['date']}, with real servers of one node on loopback, as durable as they are by default, all "
        f"on one machine with {results['machine']['cpus']} CPUs (load {number(results['machine']['load_before'], 2)} before "
        f"it began); {results['rounds']} interleaved rounds.",
        f"**Graceful handover**, with {timings('handover')}: to the standby's first word as leader. It is counted from "
        "SIGTERM of the leader, and from the leader's word that it stops, which it prints just before it releases. etcdctl "
        "does not say when it stops, and its time is that at which its line was read. A leader's process ends as soon as it "
        "has released, and the server has to end its connections at the moment at which the standby takes over: with PostgreSQL "
        "that takes some 2 ms of a CPU for each, of which there are two here for everything. The limit is the time from before "
        "a write, over its notice, to the answer of another write, by two bare clients in one process that end nothing. What "
        "compares with it is a handover between two candidates in one process, from before the guard is dropped until the "
        "other has one. The last column is the ratio of the medians.",
        table(
            ["", "from SIGTERM: median", "p90", "worst", "from the release: median", "p90", "worst", "limit = 1"],
            [row for store in stores for row in rows_of_handover(store)],
        ),
        f"In memory, where there is no store to wait for, a handover in one process takes {time(median(results['in_memory']))} "
        f"(median; p90 {time(percentile(results['in_memory'], 90))}): that is what it takes four threads to wake one another on "
        "this machine, and it is in each of the others, but not in their limits.",
        f"**Fail-over** after `kill -9`, with {timings('failover')}: how long after the expiry of the lease, and how long "
        "after the kill, the standby's first word as leader comes. The expiry of leasehold's is counted from the time of "
        "renewal that its record says. etcdctl's lease is one of a minute, which no flag changes, renewed every twenty "
        "seconds; here it was killed within twenty seconds of its start.",
        table(
            ["", "past the expiry: median", "p90", "worst", "after the kill: median", "p90", "worst"],
            [row for store in stores for row in rows_of_failover(store)],
        ),
        "What does not compare: etcd's own election needs one write for a handover, for the next one stands in a queue "
        "already, and a lock of a session needs none. Such a lock has no lease either: it is free when the server sees its "
        "connection end. The kernel of a killed process ends that at once, so these are fast here. They are not where the "
        "leader's host loses its power or its network: then the server keeps the lock until TCP gives up, which by Linux's "
        "default keepalive is after two hours. Nor where the leader hangs: then it keeps the lock for as long. One that "
        "has lost it is not told, and there is no fencing token.",
    ]
    if left_out:
        parts.append(f"Left out, because the program says that there is no such store: {', '.join(left_out)}.")
    return "\n\n".join(parts) + "\n"


def claims(results):
    """What is promised of leasehold, and whether it holds in these results."""
    found = []
    for key, store in results["stores"].items():
        ours = store["contenders"].get(f"leasehold-{key}")
        if not ours:
            continue
        if store["notifies"]:
            to_limit = ratio(store, store["in_turns"])
            found.append((f"{store['name']}: handover: {to_limit:.2f} times the limit, at most 1.25", to_limit <= 1.25))
        late = percentile(ours["failover_past_expiry"], 99)
        found.append((f"{store['name']}: fail-over: p99 {time(late)} past the expiry, at most 100 ms", late <= 0.1))
    return found


def publish(results):
    publish_part(OTHER_STORES, markdown(results))


if __name__ == "__main__":
    publish(json.loads(Path(sys.argv[1]).read_text()))
