#!/usr/bin/env python3
"""Measures elections on stores other than a cluster, and the usual locks on them; `run` builds everything."""

import argparse
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

import report
import report_stores
from cluster import rounds_of
from servers import Etcd, MySql, Postgres, Sqlite
from store_contenders import ELECT_SECONDS, candidate, contenders, is_there

ROOT = Path(__file__).parent.parent.parent

# The defaults of client-go, as in the table of the cluster.
HANDOVER = {"--lease-duration": "15s", "--renew-deadline": "10s", "--retry-period": "2s"}
FAILOVER = {"--lease-duration": "5s", "--renew-deadline": "3s", "--retry-period": "500ms"}
DURATION = 5

# The name of `MemoryStore`, for handovers without a real store.
MEMORY = "memory"

STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d\.\d+)")


def say(text):
    print(f"compare: {text}", flush=True)


class Bench:
    def __init__(self, arguments, servers, taking_part, scratch, processes):
        self.arguments = arguments
        self.servers = servers
        self.contenders = taking_part
        self.processes = processes
        self.log = processes.enter_context(open(scratch / "stderr.log", "a"))
        self.serial = 0

    def candidate(self, contender, lease, timings):
        self.serial += 1
        # Unique over all records.
        identity = f"{lease}-{self.serial:05}"
        server = self.servers[contender.store]
        return self.processes.enter_context(candidate(contender, server, lease, identity, timings, self.log))

    def pair(self, contender, lease, timings):
        """Returns a leader and a standby."""
        leader = self.candidate(contender, lease, timings)
        leader.started_leading()
        return leader, self.candidate(contender, lease, timings)

    def limit(self, server):
        """Returns a function that does a handover by bare clients."""
        return self.rounds([self.arguments.peers / "stores", "limit", server.key, server.where])

    def turns(self, url):
        """Returns a function that does a handover between two candidates in one process."""
        return self.rounds([self.arguments.examples / "turns", "--store", url, "--lease", "turns"])

    def rounds(self, command):
        return rounds_of(command, self.processes, self.log)

    # ---- the measurements ----

    def handover(self):
        """Returns seconds from SIGTERM, and from the leader's last report, until the standby leads, and the lower bounds."""
        # In one process that closes no connection, as for the lower bound.
        limit = {key: self.limit(server) for key, server in self.servers.items()}
        urls = {MEMORY: MEMORY, **{c.store: self.servers[c.store].url for c in self.contenders if c.name == "leasehold"}}
        in_turns = {key: self.turns(url) for key, url in urls.items()}
        pairs = {c.key: self.pair(c, f"handover-{c.key}", HANDOVER) for c in self.contenders}
        signalled = {c.key: [] for c in self.contenders}
        released = {c.key: [] for c in self.contenders if c.key != "etcdctl"}
        limits = {key: [] for key in self.servers}
        turns = {key: [] for key in in_turns}
        for number in range(1, self.arguments.rounds + 1):
            # A real standby waits for days. Here it waits long enough for idle connections to close. The random part, one
            # lease duration, favors no moment of a poll.
            time.sleep(random.uniform(31, 46))
            at = {}

            def measure_limit(key):
                limits[key].append(limit[key]())

            def take_turns(key):
                turns[key].append(in_turns[key]()["total"])

            def end_leader(key):
                at[key] = pairs[key][0].end(signal.SIGTERM)

            steps = [
                *((measure_limit, key) for key in limit), *((take_turns, key) for key in in_turns),
                *((end_leader, contender.key) for contender in self.contenders),
            ]
            for step, key in random.sample(steps, len(steps)):
                # A repeated action is faster, so no contender directly follows another.
                time.sleep(1)
                step(key)
            time.sleep(1)
            for contender in self.contenders:
                leader, standby = pairs[contender.key]
                started = standby.started_leading()
                signalled[contender.key].append(started - at[contender.key])
                if contender.key in released:
                    released[contender.key].append(started - stopped_leading(leader))
                leader.process.wait(30)
                pairs[contender.key] = standby, self.candidate(contender, f"handover-{contender.key}", HANDOVER)
            say(f"handover {number}/{self.arguments.rounds}: {last(signalled)} ms, in one process {last(turns)} ms, lower bounds "
                f"{last({key: [one['total'] for one in some] for key, some in limits.items()})} ms")
        return signalled, released, turns, limits

    def failover(self):
        """Returns seconds from the kill of the leader, and from the expiry of its lease, until the standby leads."""
        leases = {c.key: f"failover-{c.key}" for c in self.contenders}
        pairs = {c.key: self.pair(c, leases[c.key], FAILOVER) for c in self.contenders if c.key != "etcdctl"}
        killed = {c.key: [] for c in self.contenders}
        past = {c.key: [] for c in self.contenders if c.has_lease}
        # etcdctl takes over after a minute. The other contenders are measured meanwhile.
        waiting = []

        def collect(before):
            while waiting and waiting[0][1] < before:
                standby, expiry, death = waiting.pop(0)
                started = standby.started_leading(2 * ELECT_SECONDS)
                killed["etcdctl"].append(started - death)
                past["etcdctl"].append(started - expiry)
                standby.end(signal.SIGKILL)

        for number in range(1, self.arguments.rounds + 1):
            fresh = {}
            for contender in self.contenders:
                if contender.key == "etcdctl":
                    # etcdctl renews at its start and then every twenty seconds, without a report.
                    lease = f"{leases[contender.key]}-{number}"
                    leader = self.candidate(contender, lease, FAILOVER)
                    fresh[contender.key] = leader, leader.started_leading() + ELECT_SECONDS
                    pairs[contender.key] = leader, self.candidate(contender, lease, FAILOVER)
            time.sleep(random.uniform(3, 6))
            expiries, deaths = {}, {}
            for contender in random.sample(self.contenders, len(self.contenders)):
                leader, standby = pairs[contender.key]
                deaths[contender.key] = leader.end(signal.SIGKILL)
                leader.process.wait()
                # A last write may still be on its way. The random wait also separates the kills.
                time.sleep(random.uniform(0.3, 0.8))
                if contender.key in fresh:
                    waiting.append((standby, fresh[contender.key][1], deaths[contender.key]))
                elif contender.has_lease:
                    expiries[contender.key] = self.renewed(contender, leader) + DURATION
            for contender in self.contenders:
                if contender.key in fresh:
                    continue
                _, standby = pairs[contender.key]
                started = standby.started_leading()
                killed[contender.key].append(started - deaths[contender.key])
                if contender.has_lease:
                    past[contender.key].append(started - expiries[contender.key])
                pairs[contender.key] = standby, self.candidate(contender, leases[contender.key], FAILOVER)
            collect(time.monotonic() - 2)
            say(f"fail-over {number}/{self.arguments.rounds}: {last(past)} ms past the expiry; {last(killed)} after the kill")
        collect(float("inf"))
        return killed, past

    def renewed(self, contender, leader):
        """Returns the start of a killed leader's last renewal, from the wall clock time in its record."""
        rows = [row for row in self.servers[contender.store].rows() if leader.identity in row]
        if len(rows) != 1 or not (stamps := STAMP.findall(rows[0])):
            raise SystemExit(f"{contender.store} has no record of {leader.identity} with a time: {rows}")
        times = [datetime.fromisoformat(f"{day}T{hour[:15]:0<15}+00:00").timestamp() for day, hour in stamps]
        return max(times) - time.time() + time.monotonic()


def stopped_leading(leader):
    while True:
        line = leader.lines.next()
        if line["event"] == "stopped_leading":
            return line["mono"]


def last(measured):
    return ", ".join(f"{key} {values[-1] * 1000:.1f}" for key, values in measured.items() if values)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--apiserver", type=Path, required=True)
    parser.add_argument("--publish", action="store_true")
    arguments = parser.parse_args()
    arguments.peers = arguments.target / "peers/release"
    arguments.examples = arguments.target / "home/release/examples"

    load = os.getloadavg()[0]
    # /var/tmp is on a disk, unlike some /tmp, and accessible for the users of the servers, unlike a home directory.
    scratch = Path(tempfile.mkdtemp(prefix="leasehold-compare-", dir="/var/tmp"))
    scratch.chmod(0o755)
    # However this program ends, it ends the programs that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with contextlib.ExitStack() as running:
        servers = {server.key: running.enter_context(server) for server in (
            Etcd(scratch, arguments.peers, arguments.apiserver), Sqlite(scratch, arguments.peers),
            Postgres(scratch, arguments.peers), MySql(scratch, arguments.peers),
        )}
        known = contenders(arguments.examples, arguments.peers)
        taking_part = [c for c in known if c.name != "leasehold" or is_there(c, servers[c.store])]
        left_out = [c for c in known if c not in taking_part]
        for contender in left_out:
            say(f"left out: {contender.name} on {servers[contender.store].name()}: the program is built without this store")

        def stage(measure):
            with contextlib.ExitStack() as processes:
                return measure(Bench(arguments, servers, taking_part, scratch, processes))
        signalled, released, turns, limits = stage(Bench.handover)
        killed, past = stage(Bench.failover)
        names = {key: server.name() for key, server in servers.items()}
    shutil.rmtree(scratch)

    version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    etcdctl = subprocess.run(["etcdctl", "version"], check=True, capture_output=True, text=True).stdout.split()[2]
    versions = {"leasehold": f" {version}", "etcdctl elect": f" {etcdctl}"}
    results = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": {"cpus": os.cpu_count(), "load_before": round(load, 2)},
        "rounds": arguments.rounds,
        "timings": {"handover": HANDOVER, "failover": FAILOVER},
        "in_memory": turns[MEMORY],
        "stores": {
            key: {
                "name": names[key],
                "notifies": server.notifies,
                "limit": {"name": server.limit, **{
                    part: [one[part] for one in limits[key]] for part in ("total", "heard_after", "write")
                }},
                "in_turns": turns.get(key),
                "left_out": [c.name for c in left_out if c.store == key],
                "contenders": {
                    c.key: {
                        "name": c.name + versions.get(c.name, ""),
                        "handover_from_sigterm": signalled[c.key],
                        "handover_from_release": released.get(c.key),
                        "failover_after_kill": killed[c.key],
                        "failover_past_expiry": past.get(c.key),
                    }
                    for c in taking_part if c.store == key
                },
            }
            for key, server in servers.items()
        },
    }
    report.deliver_part(report_stores, results, "stores", arguments)


if __name__ == "__main__":
    main()
