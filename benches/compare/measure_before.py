#!/usr/bin/env python3
"""Compares this tree with an earlier commit of leasehold, in interleaved rounds of one run, for `run --before`."""

import argparse
import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import report
from cluster import Server
from contenders import Contender
from measure import HERE, Bench, say

# More candidates in each round make the medians of few rounds steady.
COPIES = 3
NOW, BEFORE = "now", "before"


def pooled(values, build):
    """Returns the values of all copies of a build."""
    return [value for copy in range(COPIES) for value in values[f"{build}-{copy}"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--apiserver", type=Path, required=True)
    parser.add_argument("--before", type=Path, required=True, help="directory of the earlier commit's programs")
    parser.add_argument("--commit", required=True, help="name of the earlier commit")
    arguments = parser.parse_args()

    programs = {NOW: arguments.target / "peers/release", BEFORE: arguments.before}
    taking_part = [
        Contender(f"{build}-{copy}", build, programs[build] / "peer-leasehold", "--lease-lock-name")
        for build in programs for copy in range(COPIES)
    ]
    scratch = Path(tempfile.mkdtemp(prefix="leasehold-compare-"))
    # However this program ends, it ends the programs that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with Server(arguments.apiserver, HERE / "rbac.yaml", scratch) as server:
        def stage(measure):
            with contextlib.ExitStack() as processes:
                return measure(Bench(arguments, server, scratch, processes, taking_part))
        with contextlib.ExitStack() as processes:
            standing = Bench(arguments, server, scratch, processes, taking_part).idle()
            next(standing)
            handover, _ = stage(Bench.handover)
            idle = next(standing)
        failover = stage(Bench.failover)
    shutil.rmtree(scratch)

    def stripped_bytes(build):
        stripped = arguments.target / "stripped"
        subprocess.run(["strip", "-o", stripped, programs[build] / "peer-leasehold"], check=True)
        return stripped.stat().st_size

    def idle_values(build, role, value):
        return median(value(idle[f"{build}-{copy}"][role]) for copy in range(COPIES))

    def per_minute(role):
        return sum(role["requests"].values()) / role["minutes"]

    figures = {
        "graceful handover, median, ms": lambda build: median(pooled(handover, build)) * 1000,
        "graceful handover, p90, ms": lambda build: report.percentile(pooled(handover, build), 90) * 1000,
        "fail-over past the expiry, median, ms": lambda build: median(pooled(failover, build)) * 1000,
        "memory of a leader, KiB": lambda build: idle_values(build, "leader", lambda role: role["rss_kib"]),
        "memory of a standby, KiB": lambda build: idle_values(build, "standby", lambda role: role["rss_kib"]),
        "requests per minute of a leader": lambda build: idle_values(build, "leader", per_minute),
        "requests per minute of a standby": lambda build: idle_values(build, "standby", per_minute),
        "stripped binary, KiB": lambda build: stripped_bytes(build) / 1024,
    }
    rows = []
    for name, figure in figures.items():
        now, before = figure(NOW), figure(BEFORE)
        rows.append([name, f"{now:.2f}", f"{before:.2f}", f"{now / before:.3f}" if before else ""])
    text = report.table(["", "now", arguments.commit, "now / before"], rows)
    values = {"commit": arguments.commit, "handover_seconds": handover, "failover_seconds_past_expiry": failover, "idle": idle}
    path = arguments.target / "before.json"
    path.write_text(json.dumps(values, indent=1) + "\n")
    say(f"each value is in {path}")
    print(f"\n{text}\n\n{arguments.rounds} rounds, {COPIES} pairs of candidates of each build in every round.")


if __name__ == "__main__":
    main()
