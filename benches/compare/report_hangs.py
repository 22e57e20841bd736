#!/usr/bin/env python3
"""The part of results.md about leaders whose work hangs.

    report_hangs.py HANGS_JSON     renders it again; `run` says where it left the file
"""

import json
import sys
from pathlib import Path
from statistics import median

from report import HANGS, percentile, publish_part, table, time

# What delivers a renewal, wakes threads and writes once, on a machine that has other things to do.
MARGIN = 0.02


def seconds(results, flag):
    text = results["timings"][flag]
    return float(text.removesuffix("ms")) / 1000 if text.endswith("ms") else float(text.removesuffix("s"))


def bounds(results):
    """What is promised: of work that hangs, and of a candidate that is not fit."""
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
        f"{results['machine']['cpus']} CPUs (load {results['machine']['load_before']} before it began); {results['rounds']} rounds "
        f"each, with {durations}. How long until the standby's first word as leader, another process: from the last progress of "
        f"a worker that deadlocks with the guard in its hands, where it has to make some within {timings['--progress-timeout']}; "
        "and from the moment from which a leader's probe says no, whose worker drops its guard when it is woken. The probe is "
        "run each retry period.",
        table(
            ["", "median", "p90", "worst", "at most"],
            [
                row(f"leasehold {results['leasehold']}: the worker deadlocks", results["hung_seconds"], hung),
                row(f"leasehold {results['leasehold']}: the probe says no", results["unfit_seconds"], unfit),
                [f"client-go {client_go['version']}: the worker deadlocks", f"{outcome}: {went_on}", "", "", ""],
            ],
        ),
        "client-go has no probe of fitness, and a leader of it goes on for as long as its process lives.",
    ]
    return "\n\n".join(parts) + "\n"


def claims(results):
    """What is promised, and whether it holds in these results."""
    hung, unfit = bounds(results)
    worst_hung, worst_unfit = max(results["hung_seconds"]), max(results["unfit_seconds"])
    return [
        (f"a worker that deadlocks is replaced in {worst_hung:.3f} s, at most {hung:.2f} s", worst_hung <= hung),
        (f"a leader that is not fit is replaced in {worst_unfit:.3f} s, at most {unfit:.2f} s", worst_unfit <= unfit),
        ("client-go's leader goes on while its worker hangs", not results["client-go"]["replaced"]),
    ]


def publish(results):
    publish_part(HANGS, markdown(results))


if __name__ == "__main__":
    publish(json.loads(Path(sys.argv[1]).read_text()))
