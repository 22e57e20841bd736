#!/usr/bin/env python3
"""Measures how long a leader that hangs or is unfit delays the next leader; `run` builds everything."""

import argparse
import contextlib
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import report
import report_hangs
from cluster import Candidate, Server, Watch
from contenders import Contender, contenders

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

TIMINGS = {"--lease-duration": "5s", "--renew-deadline": "3s", "--retry-period": "500ms"}
PROGRESS = {"--progress-timeout": "3s"}
# The time for which the benchmark watches client-go while its work hangs.
WATCHED = 60


def say(text):
    print(f"compare: {text}", flush=True)


class Bench:
    def __init__(self, arguments, server, scratch, processes):
        self.arguments = arguments
        self.server = server
        self.processes = processes
        self.log = processes.enter_context(open(scratch / "stderr.log", "a"))
        self.serial = 0

    def worker(self, lease, timings):
        self.serial += 1
        hangs, identity = Contender("hangs", "leasehold", self.arguments.hangs), f"{lease}-{self.serial}"
        return self.processes.enter_context(Candidate(
            hangs, self.server.candidate, lease, identity, timings, self.log, subprocess.PIPE,
        ))

    def rounds(self, lease, word, event, timings):
        """Returns seconds from the leader's `event` until the standby reports that it leads."""
        leader = self.worker(lease, timings)
        leader.started_leading()
        taken = []
        for number in range(1, self.arguments.rounds + 1):
            standby = self.worker(lease, timings)
            # A random wait favors no moment of a renewal or a probe.
            time.sleep(random.uniform(2, 4))
            leader.process.stdin.write(f"{word}\n".encode())
            since = leader.wait_for(event)
            taken.append(standby.started_leading() - since)
            leader.end(signal.SIGKILL)
            leader.process.wait()
            leader = standby
            say(f"{word} {number}/{self.arguments.rounds}: {taken[-1]:.3f} s")
        return taken

    def client_go(self):
        """Measures how long a leader of client-go continues while its work hangs, and how often it renews.

        A generator: the first step starts the processes, and the second yields the results. The leader deadlocks as soon
        as it leads.
        """
        contender = next(it for it in contenders(self.arguments.target) if it.key == "client-go")
        users = [self.server.kubeconfig_for(f"hangs-{role}") for role in ("leader", "standby")]
        watch = Watch(self.server)
        watch.start()

        def candidate(kubeconfig, identity, flags):
            return self.processes.enter_context(
                Candidate(contender, kubeconfig, "hangs-client-go", identity, {**TIMINGS, **flags}, self.log))

        leader = candidate(users[0], "client-go-leader", {"--hang": "true"})
        since = leader.started_leading()
        began = time.time()
        standby = candidate(users[1], "client-go-standby", {})
        yield
        time.sleep(max(since + WATCHED - time.monotonic(), 0))
        watched = time.monotonic() - since
        # The server writes the audit log with a delay.
        ended = time.time()
        time.sleep(2)
        renewals = sum(user == "hangs-leader" and verb == "update" for user, verb in self.server.requests(began, ended))
        _, spec = watch.changed["hangs-client-go"]
        printed = b""
        while select.select([standby.process.stdout], [], [], 0)[0]:
            printed += os.read(standby.process.stdout.fileno(), 65536)
        replaced = spec["holderIdentity"] != leader.identity or b"started_leading" in printed
        yield {"watched_seconds": watched, "renewals": renewals, "replaced": replaced}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--apiserver", type=Path, required=True)
    parser.add_argument("--publish", action="store_true")
    arguments = parser.parse_args()
    arguments.hangs = arguments.target / "home/release/examples/hangs"

    load = os.getloadavg()[0]
    scratch = Path(tempfile.mkdtemp(prefix="leasehold-compare-"))
    # However this program ends, it ends the programs that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with Server(arguments.apiserver, HERE / "rbac.yaml", scratch) as server, contextlib.ExitStack() as processes:
        bench = Bench(arguments, server, scratch, processes)
        client_go = bench.client_go()
        next(client_go)
        hung = bench.rounds("hangs", "hang", "hangs", {**TIMINGS, **PROGRESS})
        unfit = bench.rounds("unfit", "unfit", "unfit", TIMINGS)
        say(f"waiting for the rest of {WATCHED} s in which the work of client-go's leader hangs")
        client_go = next(client_go)
        version = server.ready["version"]
    shutil.rmtree(scratch)

    go_mod = (ROOT / "tests/client-go/go.mod").read_text()
    results = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "kube_apiserver": version,
        "machine": {"cpus": os.cpu_count(), "load_before": round(load, 2)},
        "rounds": arguments.rounds,
        "timings": {**TIMINGS, **PROGRESS},
        "leasehold": re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1],
        "hung_seconds": hung,
        "unfit_seconds": unfit,
        "client-go": {"version": go_mod.split("k8s.io/client-go v")[1].split()[0], **client_go},
    }
    report.deliver_part(report_hangs, results, "hangs", arguments)


if __name__ == "__main__":
    main()
