#!/usr/bin/env python3
"""Measures one election in four implementations on one real kube-apiserver; `run` builds everything."""

import argparse
import contextlib
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import report
from cluster import Candidate, Server, Watch, rounds_of
from contenders import contenders

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

# client-go's defaults.
HANDOVER = {"--lease-duration": "15s", "--renew-deadline": "10s", "--retry-period": "2s"}
FAILOVER = {"--lease-duration": "5s", "--renew-deadline": "3s", "--retry-period": "500ms"}
HERD = 100
HERD_ROUNDS = 10
CHECK_ROUNDS = 200


def say(text):
    print(f"compare: {text}", flush=True)


class Bench:
    def __init__(self, arguments, server, scratch, processes, taking_part=None):
        self.arguments = arguments
        self.server = server
        self.scratch = scratch
        self.processes = processes
        self.contenders = taking_part or contenders(arguments.target)
        self.log = processes.enter_context(open(scratch / "stderr.log", "a"))
        self.serial = 0

    def candidate(self, contender, lease, timings, kubeconfig=None):
        self.serial += 1
        identity = f"{contender.key}-{self.serial}"
        kubeconfig = kubeconfig or self.server.candidate
        return self.processes.enter_context(Candidate(contender, kubeconfig, lease, identity, timings, self.log))

    def pair(self, contender, lease, timings, kubeconfigs=(None, None)):
        """Returns a leader and a standby."""
        leader = self.candidate(contender, lease, timings, kubeconfigs[0])
        leader.started_leading()
        return leader, self.candidate(contender, lease, timings, kubeconfigs[1])

    def helper(self, *words):
        """Starts the program `bare`, and returns a function that does one round."""
        return rounds_of([self.arguments.target / "peers/release/bare", *words], self.processes, self.log)

    # ---- the measurements ----

    def handover(self):
        """Returns seconds from SIGTERM of the leader until the standby reports that it leads, and the lower bounds."""
        limit = self.helper("limit", self.server.candidate, "limit")
        pairs = {c.key: self.pair(c, f"handover-{c.key}", HANDOVER) for c in self.contenders}
        taken = {c.key: [] for c in self.contenders}
        limits = []
        for number in range(1, self.arguments.rounds + 1):
            # A real standby waits for days. Here it waits long enough for idle connections to close. The random part, one
            # lease duration, favors no moment of a poll.
            time.sleep(random.uniform(31, 46))
            signalled = {}
            for contender in random.sample(self.contenders, len(self.contenders)):
                # A repeated action is faster, so no contender directly follows another.
                limits.append(limit())
                time.sleep(1)
                leader, _ = pairs[contender.key]
                signalled[contender.key] = leader.end(signal.SIGTERM)
                time.sleep(1)
            for contender in self.contenders:
                leader, standby = pairs[contender.key]
                taken[contender.key].append(standby.started_leading() - signalled[contender.key])
                leader.process.wait(30)
                pairs[contender.key] = standby, self.candidate(contender, f"handover-{contender.key}", HANDOVER)
            last = ", ".join(f"{key} {times[-1] * 1000:.1f}" for key, times in taken.items())
            say(f"handover {number}/{self.arguments.rounds}: {last}, limit {limits[-1]['total'] * 1000:.1f} ms")
        return taken, {part: [one[part] for one in limits] for part in ("total", "event_after", "put")}

    def failover(self):
        """Returns seconds from the expiry of a killed leader's lease until the standby reports that it leads."""
        watch = Watch(self.server)
        watch.start()
        leases = {c.key: f"failover-{c.key}" for c in self.contenders}
        pairs = {c.key: self.pair(c, leases[c.key], FAILOVER) for c in self.contenders}
        past = {c.key: [] for c in self.contenders}
        duration = int(FAILOVER["--lease-duration"].rstrip("s"))
        for number in range(1, self.arguments.rounds + 1):
            time.sleep(random.uniform(3, 6))
            expiries = {}
            for contender in random.sample(self.contenders, len(self.contenders)):
                leader, _ = pairs[contender.key]
                leader.end(signal.SIGKILL)
                leader.process.wait()
                # The event of a last write may still be on its way.
                time.sleep(random.uniform(0.3, 0.8))
                changed_at, spec = watch.changed[leases[contender.key]]
                assert spec["holderIdentity"] == leader.identity and spec["leaseDurationSeconds"] == duration
                expiries[contender.key] = changed_at + duration
            for contender in self.contenders:
                _, standby = pairs[contender.key]
                past[contender.key].append(standby.started_leading() - expiries[contender.key])
                pairs[contender.key] = standby, self.candidate(contender, leases[contender.key], FAILOVER)
            last = ", ".join(f"{key} {times[-1] * 1000:.1f}" for key, times in past.items())
            say(f"fail-over {number}/{self.arguments.rounds}: {last} ms past the expiry")
        return past

    def idle(self):
        """Measures an idle leader and standby: requests per minute, memory, threads.

        A generator: the first step starts the processes. Other measurements may run until the second step, which waits
        for the rest of the time and yields the results.
        """
        users = {(c.key, role): f"{c.key}-{role}" for c in self.contenders for role in ("leader", "standby")}
        pairs = {
            c.key: self.pair(c, f"idle-{c.key}", HANDOVER, [
                self.server.kubeconfig_for(users[c.key, role]) for role in ("leader", "standby")
            ])
            for c in self.contenders
        }
        # The start itself sends requests.
        time.sleep(20)
        minutes = self.arguments.minutes
        since = time.time()
        until = since + minutes * 60
        yield
        # The audit log is written behind.
        time.sleep(max(until + 2 - time.time(), 0))
        status = {c.key: [candidate.status() for candidate in pairs[c.key]] for c in self.contenders}
        verbs = {user: Counter() for user in users.values()}
        for user, verb in self.server.requests(since, until):
            if user in verbs:
                verbs[user][verb] += 1
        yield {
            c.key: {
                role: {"requests": verbs[users[c.key, role]], "minutes": minutes, **status[c.key][at]}
                for at, role in enumerate(("leader", "standby"))
            }
            for c in self.contenders
        }

    def check(self):
        """Returns nanoseconds of `is_leader()` and of reading the clock alone."""
        once = self.helper("check", self.server.candidate, "check")
        rounds = [once() for _ in range(CHECK_ROUNDS)]
        return {what: [one[what] for one in rounds] for what in ("is_leader", "clock")}

    def herd(self):
        """Measures handovers with a hundred standbys: their time, and the number of writes of each standby."""
        users = [f"herd-{number}" for number in range(HERD + 1)]
        once = self.helper("herd", *(str(self.server.kubeconfig_for(user)) for user in users), "herd")
        rounds = []
        for number in range(1, min(self.arguments.rounds, HERD_ROUNDS) + 1):
            time.sleep(3)
            since = time.time()
            one = once()
            # One second is long enough for every loser's write, and ends before the first renewal.
            until = time.time()
            time.sleep(1)
            requests = [(user, verb) for user, verb in self.server.requests(since, until) if user in users]
            # The release of the old leader is one of the updates.
            puts = Counter(user for user, verb in requests if verb == "update")
            rounds.append({
                "seconds": one["total"],
                "puts": puts.total(),
                "most_puts_of_one": max(puts.values()),
                "gets": sum(verb == "get" for _, verb in requests),
            })
            say(f"herd {number}: {one['total'] * 1000:.1f} ms, {puts.total()} PUTs, {max(puts.values())} from one candidate")
        return rounds


def programs(arguments):
    """Returns version, size and dependencies of each program."""
    lock = (HERE / "peers/Cargo.lock").read_text()
    go_mod = (ROOT / "tests/client-go/go.mod").read_text()
    builds = json.loads(arguments.builds.read_text()) if arguments.builds else {}

    def locked(crate):
        return lock.split(f'name = "{crate}"\nversion = "')[1].split('"')[0]

    def crates(crate):
        manifest = (ROOT if crate == "leasehold" else HERE / "peers") / "Cargo.toml"
        tree = subprocess.run(
            ["cargo", "tree", "--locked", "--manifest-path", manifest, "--package", crate,
             "--edges", "normal", "--prefix", "none", "--format", "{p}"],
            check=True, capture_output=True, text=True,
        ).stdout
        return len({tuple(line.split()[:2]) for line in tree.splitlines() if line.strip()})

    found = {}
    for contender in contenders(arguments.target):
        stripped = arguments.target / "stripped"
        subprocess.run(["strip", "-o", stripped, contender.program], check=True)
        rust = contender.key != "client-go"
        found[contender.key] = {
            "name": contender.name,
            "version": locked(contender.key) if rust else go_mod.split("k8s.io/client-go v")[1].split()[0],
            "stripped_bytes": stripped.stat().st_size,
            "crates": crates(contender.key) if rust else None,
            "clean_build_seconds": builds.get(contender.key),
        }
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--apiserver", type=Path, required=True)
    parser.add_argument("--builds", type=Path)
    parser.add_argument("--publish", action="store_true")
    arguments = parser.parse_args()

    load = os.getloadavg()[0]
    scratch = Path(tempfile.mkdtemp(prefix="leasehold-compare-"))
    # However this program ends, it ends the programs that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with Server(arguments.apiserver, HERE / "rbac.yaml", scratch) as server:
        def stage(measure):
            with contextlib.ExitStack() as processes:
                return measure(Bench(arguments, server, scratch, processes))
        with contextlib.ExitStack() as processes:
            standing = Bench(arguments, server, scratch, processes).idle()
            next(standing)
            handover, limit = stage(Bench.handover)
            say(f"waiting for the rest of {arguments.minutes:g} minutes of four idle leaders and standbys")
            idle = next(standing)
        failover = stage(Bench.failover)
        herd = stage(Bench.herd)
        check = stage(Bench.check)
        version = server.ready["version"]
    shutil.rmtree(scratch)

    results = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "kube_apiserver": version,
        "machine": {"cpus": os.cpu_count(), "system": platform.system(), "load_before": round(load, 2)},
        "rounds": arguments.rounds,
        "timings": {"handover_and_idle": HANDOVER, "failover": FAILOVER},
        "programs": programs(arguments),
        "handover_seconds": handover,
        "limit_seconds": limit,
        "failover_seconds_past_expiry": failover,
        "idle": idle,
        "herd": {"standbys": HERD, "rounds": herd},
        "check_nanoseconds": check,
    }
    say(f"each value is in {report.save(results, arguments.target)}")
    if arguments.publish:
        report.publish(results)
    else:
        report.write(results, arguments.target)
    print(report.markdown(results))
    for claim, holds in report.claims(results):
        say(f"{'holds' if holds else 'DOES NOT HOLD'}: {claim}")


if __name__ == "__main__":
    main()
