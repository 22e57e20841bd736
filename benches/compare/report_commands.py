#!/usr/bin/env python3
"""The part of results.md about `leasehold run`.

    report_commands.py COMMANDS_JSON     renders it again; `run` says where it left the file
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
        f"Measured on {results['date']} on a real kube-apiserver {results['kube_apiserver']}, and on an etcd of its own, on one "
        f"machine with {results['machine']['cpus']} CPUs (load {results['machine']['load_before']} before it began); "
        f"{results['rounds']} rounds each, with default timings. From `kill -9` of a command that holds {held:.0f} MiB until the "
        "first words of the one that waits for the same lease: the first is taken note of, the process that it has started is ended, the "
        "lease is released and acquired, and the second is started. `leasehold run` has `--restart`, as in deploy/command; without it the "
        "candidate ends meanwhile, on the same machine. `etcdctl lock` always does, and leaves alone what the command has started.",
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
            f"The command as one static binary (musl, stripped), with every store in it: {results['static_bytes'] / 2**20:.1f} MiB."
        )
    return "\n\n".join(parts) + "\n"


def claims(results):
    taken = median(results["cluster"]["seconds"])
    return [(f"a command that is killed is followed in {taken * 1000:.1f} ms (median), at most {LIMIT * 1000:.0f} ms", taken <= LIMIT)]


def publish(results):
    publish_part(COMMANDS, markdown(results))


if __name__ == "__main__":
    publish(json.loads(Path(sys.argv[1]).read_text()))
