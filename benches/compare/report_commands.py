#!/usr/bin/env python3
"""Renders the part of results.md about `leasehold run`.

    report_commands.py COMMANDS_JSON     renders the part again; `run` prints the path of the file
"""

import json
import sys
from pathlib import Path
from statistics import median

from report import COMMANDS, publish_part, spread, table

LIMIT = 0.015


def markdown(results):
    own, etcdctl = f"leasehold {results['leasehold']}", f"etcdctl {results['etcdctl_version']}"
    held = max(results[key]["held_kib"] for key in ("cluster", "cluster_once", "etcd", "etcdctl")) / 1024
    parts = [
        COMMANDS.rstrip(),
        f"Measured on {results['date']} on a real kube-apiserver {results['kube_apiserver']}, and on a separate etcd, on one "
        f"machine with {results['machine']['cpus']} CPUs (load {results['machine']['load_before']} before the start), in "
        f"{results['rounds']} rounds each, with default timings. The time runs from `kill -9` of a command that holds {held:.0f} MiB "
        "until the command of the standby prints its first line. In between, `leasehold run` notices the end of the command, kills the "
        "process that the command left behind and releases the lease; the standby acquires the lease and starts its command. `leasehold "
        "run` has `--restart`, as in deploy/command. Without `--restart` the first candidate also exits on the same machine. `etcdctl "
        "lock` always exits, and does not kill the process that the command left behind.",
        table(
            ["", "median", "p90", "p99", "worst"],
            [
                [f"{own}: `leasehold run`, a Lease", *spread(results["cluster"]["seconds"])],
                [f"{own}: the same without `--restart`", *spread(results["cluster_once"]["seconds"])],
                [f"{own}: `leasehold run --store etcd://…`", *spread(results["etcd"]["seconds"])],
                [f"{etcdctl}: `etcdctl lock`", *spread(results["etcdctl"]["seconds"])],
            ],
        ),
    ]
    if results["static_bytes"]:
        parts.append(
            f"`leasehold` as one static binary (musl, stripped) with all stores: {results['static_bytes'] / 2**20:.1f} MiB."
        )
    return "\n\n".join(parts) + "\n"


def claims(results):
    taken = median(results["cluster"]["seconds"])
    return [(f"after a kill, the next command starts in {taken * 1000:.1f} ms (median), at most {LIMIT * 1000:.0f} ms", taken <= LIMIT)]


def publish(results):
    publish_part(COMMANDS, markdown(results))


if __name__ == "__main__":
    publish(json.loads(Path(sys.argv[1]).read_text()))
