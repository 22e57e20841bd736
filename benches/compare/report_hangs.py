#!/usr/bin/env python3
"""Renders the part of results.md about leaders whose work hangs.

    report_hangs.py HANGS_JSON     renders the part again; `run` prints the path of the file
"""

import json
import sys
from pathlib import Path
from statistics import median

from report import HANGS, percentile, publish_part, table, time

# The time to deliver a renewal, wake threads and write once on a busy machine.
MARGIN = 0.02


def seconds(results, flag):
    text = results["timings"][flag]
    return float(text.removesuffix("ms")) / 1000 if text.endswith("ms") else float(text.removesuffix("s"))


def bounds(results):
    """Returns the promised bounds for hung work and for an unfit candidate."""
    hung = seconds(results, "--progress-timeout") + seconds(results, "--lease-duration") + MARGIN
    return hung, seconds(results, "--retry-period") + MARGIN


def markdown(results):
    hung, unfit = bounds(results)
    timings, client_go = results["timings"], results["client-go"]
    durations = "/".join(timings[flag] for flag in ("--lease-duration", "--renew-deadline", "--retry-period"))

    def row(name, values, bound):
        return [name, time(median(values)), time(percentile(values, 90)), time(max(values)), f"{bound:.2f} s"]

    went_on = f"{client_go['renewals']} renewals in {client_go['watched_seconds']:.0f} s"
    outcome = "replaced" if client_go["replaced"] else "never"
    parts = [
        HANGS.rstrip(),
        f"Measured on {results['date']} on a real kube-apiserver {results['kube_apiserver']}, on one machine with "
        f"{results['machine']['cpus']} CPUs (load {results['machine']['load_before']} before the start), in {results['rounds']} "
        f"rounds each, with {durations}. The time ends when the standby, another process, reports that it leads. In the first row the time "
        f"starts at the last progress of a worker that deadlocks with the guard; the progress timeout is "
        f"{timings['--progress-timeout']}. In the second row the time starts when the leader's probe returns `false`; the worker then drops "
        "its guard. The probe runs once per retry period.",
        table(
            ["", "median", "p90", "worst", "at most"],
            [
                row(f"leasehold {results['leasehold']}: the worker deadlocks", results["hung_seconds"], hung),
                row(f"leasehold {results['leasehold']}: the probe returns `false`", results["unfit_seconds"], unfit),
                [f"client-go {client_go['version']}: the worker deadlocks", f"{outcome}: {went_on}", "", "", ""],
            ],
        ),
        "client-go has no fitness probe. Its leader continues as long as its process lives.",
    ]
    return "\n\n".join(parts) + "\n"


def claims(results):
    """Returns each claim, and whether the claim holds in these results."""
    hung, unfit = bounds(results)
    worst_hung, worst_unfit = max(results["hung_seconds"]), max(results["unfit_seconds"])
    return [
        (f"a deadlocked worker is replaced in {worst_hung:.3f} s, at most {hung:.2f} s", worst_hung <= hung),
        (f"an unfit leader is replaced in {worst_unfit:.3f} s, at most {unfit:.2f} s", worst_unfit <= unfit),
        ("client-go's leader continues while its worker hangs", not results["client-go"]["replaced"]),
    ]


def publish(results):
    publish_part(HANGS, markdown(results))


if __name__ == "__main__":
    publish(json.loads(Path(sys.argv[1]).read_text()))
