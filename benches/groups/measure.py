#!/usr/bin/env python3
"""Measures a group of 64 shards on one real kube-apiserver; `run` builds everything."""

import argparse
import calendar
import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "compare"))

from cluster import PATIENCE, Server, Watch, rounds_of  # noqa: E402

SHARDS = 64
LEASE = 15


def say(text):
    print(f"groups: {text}", flush=True)


class Member:
    """A process of `group_member`, and the time at which it started to own each of its shards."""

    def __init__(self, bench, group, identity, *flags):
        self.identity, self.started, self.ended = identity, {}, {}
        self.process = subprocess.Popen(
            [bench.arguments.target / "release/examples/group_member", "--group", group, "--id", identity,
             "--kubeconfig", bench.server.kubeconfig_for(identity), *flags],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=bench.log,
        )
        bench.processes.callback(self.kill)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            line = json.loads(line)
            if line["event"] == "leading":
                self.started[line.get("shard")] = line["mono"]
            else:
                self.started.pop(line["shard"], None)
                self.ended[line["shard"]] = line["mono"]

    def kill(self, with_signal=signal.SIGKILL):
        at = time.monotonic()
        self.process.send_signal(with_signal)
        self.process.wait()
        return at

    def status(self):
        """Returns the resident memory in KiB and the number of threads."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]), int(re.search(r"Threads:\s+(\d+)", text)[1])


class Bench:
    def __init__(self, arguments, server, processes, log):
        self.arguments, self.server, self.processes, self.log = arguments, server, processes, log
        self.serial = 0
        self.watch = Watch(server)
        self.watch.start()

    def member(self, group, shards):
        self.serial += 1
        return Member(self, group, f"member-{self.serial}", "--shards", str(shards))

    def wait_for_shares(self, members, shards):
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            counts = [len(member.started) for member in members]
            if sum(counts) == shards and max(counts) - min(counts) <= 1:
                # A started move must end.
                time.sleep(1)
                if counts == [len(member.started) for member in members]:
                    return
            time.sleep(0.01)
        raise SystemExit(f"the members own {counts} shards")

    def limit(self):
        """Returns a function that measures a PUT, its event and a PUT of bare clients."""
        words = ["limit", self.server.candidate, "limit"]
        return rounds_of([self.arguments.target / "peers/release/bare", *words], self.processes, self.log)

    def requests(self):
        """Returns the requests a minute of each user and verb."""
        since, minutes = time.time(), self.arguments.minutes
        time.sleep(minutes * 60)
        return {key: count / minutes for key, count in Counter(self.server.requests(since, time.time())).items()}

    def moves(self, limit):
        """Measures planned moves: from the return of the worker until the next owner starts."""
        first = [self.member("moves", 3) for _ in range(2)]
        self.wait_for_shares(first, 3)
        moved, limits = [], []
        for _ in range(self.arguments.rounds):
            joins = self.member("moves", 3)
            self.wait_for_shares([*first, joins], 3)
            (shard, started), = joins.started.items()
            moved.append(started - max(member.ended.get(shard, 0) for member in first))
            limits.append(limit())
            joins.kill(signal.SIGTERM)
            self.wait_for_shares(first, 3)
        for member in first:
            member.kill(signal.SIGTERM)
        return moved, limits

    def handovers(self, members, with_signal):
        """Measures the time until the last shard of an ended member has another owner."""
        taken = []
        for number in range(max(self.arguments.rounds // 3, 2)):
            member = members.pop(0)
            shards = set(member.started)
            at = member.kill(with_signal)
            if with_signal == signal.SIGKILL:
                slots = [spec for name, (_, spec) in self.watch.changed.items() if "-member-" in name]
                renewed, = (spec["renewTime"] for spec in slots if spec.get("holderIdentity") == member.identity)
                whole, fraction = renewed.rstrip("Z").split(".")
                wall = calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float(f"0.{fraction}")
                at = time.monotonic() - time.time() + wall + LEASE
            until = time.monotonic() + PATIENCE
            while not all(any(other.started.get(shard, 0) > 0 for other in members) for shard in shards):
                if time.monotonic() > until:
                    raise SystemExit("shards of an ended member have no owner")
                time.sleep(0.002)
            last = max(max(other.started.get(shard, 0) for other in members) for shard in shards)
            taken.append((last - at) / len(shards))
            say(f"{with_signal.name} {number + 1}: {len(shards)} shards in {(last - at) * 1000:.0f} ms")
            members.append(self.member("ingest", SHARDS))
            self.wait_for_shares(members, SHARDS)
        return taken


def measure(bench):
    limit = bench.limit()
    electors = Member(bench, "electors", "electors-64", "--electors", str(SHARDS))
    one = Member(bench, "one", "elector-1", "--electors", "1")
    alone = bench.member("alone", SHARDS)
    members = [bench.member("ingest", SHARDS) for _ in range(3)]
    bench.wait_for_shares([alone], SHARDS)
    bench.wait_for_shares(members, SHARDS)
    say("counting requests")
    requests = bench.requests()
    users = {member.identity for member in members}
    of_members = {verb: sum(n for (user, it), n in requests.items() if user in users and it == verb)
                  for _, verb in requests}
    of_electors = sum(n for (user, _), n in requests.items() if user == "electors-64")
    status = {"one": one.status(), "alone": alone.status(), "member": members[0].status()}
    owned = len(members[0].started)
    for process in (electors, one, alone):
        process.kill(signal.SIGTERM)
    moved, limits = bench.moves(limit)
    ended = bench.handovers(members, signal.SIGTERM)
    killed = bench.handovers(members, signal.SIGKILL)
    puts = median(one["put"] for one in limits)
    event = median(one["event_after"] for one in limits)
    move = median(one["total"] for one in limits)
    all_of_members = sum(of_members.values())
    share = SHARDS / 3
    bound = ((share + 1) * puts + event) / share
    rows = [
        ("requests a minute of 3 members with 64 shards", f"{all_of_members:.0f}", "at most 120", all_of_members <= 120),
        ("updates among these requests", f"{of_members.get('update', 0):.0f}", "90", None),
        ("requests a minute of 64 electors", f"{of_electors:.0f}", "", None),
        ("planned move of one shard, median", f"{median(moved) * 1e3:.1f} ms",
         f"at most 1.25 times a PUT, its event and a PUT ({move * 1e3:.1f} ms)", median(moved) <= 1.25 * move),
        ("SIGTERM, for each shard, median", f"{median(ended) * 1e3:.2f} ms",
         f"at most 1.5 times {bound * 1e3:.2f} ms", median(ended) <= 1.5 * bound),
        ("SIGKILL after the slot expired, for each shard, median", f"{median(killed) * 1e3:.2f} ms",
         f"at most 1.5 times {bound * 1e3:.2f} ms", median(killed) <= 1.5 * bound),
        ("threads of a member, without its workers and 2 of the program", status["member"][1] - owned - 2, "at most 6",
         status["member"][1] - owned - 2 <= 6),
        ("resident memory of 64 shards above one elector", f"{(status['alone'][0] - status['one'][0]) / 1024:.1f} MiB",
         "at most 2 MiB", status["alone"][0] - status["one"][0] <= 2048),
    ]
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--apiserver", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--minutes", type=float, default=2)
    arguments = parser.parse_args()
    with contextlib.ExitStack() as processes:
        scratch = Path(processes.enter_context(tempfile.TemporaryDirectory(prefix="leasehold-")))
        log = processes.enter_context(open(scratch / "stderr.log", "a"))
        server = processes.enter_context(Server(arguments.apiserver, ROOT / "docs/rbac.yaml", scratch))
        rows = measure(Bench(arguments, server, processes, log))
    lines = ["| measured | value | bound | holds |", "|---|---|---|---|"]
    lines += [f"| {what} | {value} | {bound} | {'' if holds is None else 'yes' if holds else 'no'} |"
              for what, value, bound, holds in rows]
    text = "\n".join(lines)
    heading = "# A group of 64 shards on a real kube-apiserver\n\nOne run of `benches/groups/run`. " \
        f"{arguments.rounds} rounds, {arguments.minutes:g} minutes of counted requests.\n\n"
    (HERE / "results.md").write_text(heading + text + "\n")
    print(text)


if __name__ == "__main__":
    main()
