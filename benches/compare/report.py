#!/usr/bin/env python3
"""Renders the results as Markdown, as a plot, and as the table of the README.

    report.py RESULTS_JSON     renders results.md and the README again; `run` prints the path of the file
"""

import json
import math
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

# This program writes the lines of the README between these comments.
BEGIN = "<!-- measured by benches/compare/run -->"
END = "<!-- end -->"

# report_hangs.py, report_commands.py and report_stores.py write the parts of results.md from these headings on.
HANGS = "## A leader whose work hangs\n"
COMMANDS = "## A command under `leasehold run`\n"
OTHER_STORES = "## Other stores\n"
PARTS = [HANGS, COMMANDS, OTHER_STORES]

COLOURS = {
    "leasehold": "#2f81f7",
    "client-go": "#d29922",
    "kube-leader-election": "#a371f7",
    "kube-lease-manager": "#db61a2",
    "limit": "#3fb950",
}


def percentile(values, percent):
    """Returns the nearest rank, which is always one of the values. With fewer than 100 values, p99 is the worst."""
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def time(seconds):
    if abs(seconds) >= 0.9995:
        return f"{seconds:.2f} s"
    if abs(seconds) >= 0.01:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds * 1000:.1f} ms"


def number(value, digits=1):
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def spread(values):
    return [time(median(values)), time(percentile(values, 90)), time(percentile(values, 99)), time(max(values))]


def per_minute(role):
    total = sum(role["requests"].values())
    verbs = ", ".join(
        f"{verb} {number(count / role['minutes'])}" for verb, count in sorted(role["requests"].items())
    )
    return f"{number(total / role['minutes'])} ({verbs})" if total else "0"


def markdown(results):
    programs, idle = results["programs"], results["idle"]
    keys = list(programs)
    handover, limit = results["handover_seconds"], results["limit_seconds"]["total"]
    failover = results["failover_seconds_past_expiry"]
    ours = median(handover["leasehold"])
    minutes = idle["leasehold"]["leader"]["minutes"]
    herd = results["herd"]
    times = [one["seconds"] for one in herd["rounds"]]
    check = results["check_nanoseconds"]

    def timings(flags):
        return "/".join(flags.values())

    def name(key):
        return f"{programs[key]['name']} {programs[key]['version']}"

    parts = [
        f"Measured on {results['date']} on a real kube-apiserver {results['kube_apiserver']} with its etcd, all on one "
        f"machine with {results['machine']['cpus']} CPUs, in {results['rounds']} interleaved rounds. Compare values of "
        "one table only, because absolute times depend on the machine. With fewer than 100 rounds, p99 is the worst value.",
        f"**Graceful handover**: time from SIGTERM of the leader until the standby reports that it leads, with "
        f"{timings(results['timings']['handover_and_idle'])} (lease duration/renew deadline/retry period).",
        table(
            ["", "median", "p90", "p99", "worst", "median, leasehold = 1"],
            [[name(key), *spread(handover[key]), number(median(handover[key]) / ours)] for key in keys]
            + [["lower bound: a PUT, its event, a PUT", *spread(limit), number(median(limit) / ours, 2)]],
        ),
        f"**Fail-over** after `kill -9`, with {timings(results['timings']['failover'])}: time from the expiry of the lease "
        "until the standby reports that it leads. The expiry is counted from the event of the last renewal.",
        table(["", "median", "p90", "p99", "worst"], [[name(key), *spread(failover[key])] for key in keys]),
        f"**Idle**: requests per minute from the server's audit log over {number(minutes)} "
        f"minute{'' if minutes == 1 else 's'}, during the handovers on other leases, and memory of the processes afterwards.",
        table(
            ["", "leader's requests", "standby's requests", "leader's memory (threads)", "standby's memory (threads)"],
            [
                [name(key)]
                + [per_minute(idle[key][role]) for role in ("leader", "standby")]
                + [
                    f"{idle[key][role]['rss_kib'] / 1024:.1f} MiB ({idle[key][role]['threads']})"
                    for role in ("leader", "standby")
                ]
                for key in keys
            ],
        ),
        "**Size**: the measured program, including its parser for kubeconfig files.",
        table(
            ["", "stripped binary", "crates", "clean release build"],
            [
                [
                    name(key),
                    f"{programs[key]['stripped_bytes'] / 1024 / 1024:.1f} MiB",
                    str(programs[key]["crates"] or "n/a"),
                    f"{programs[key]['clean_build_seconds']:.0f} s" if programs[key]["clean_build_seconds"] else "",
                ]
                for key in keys
            ],
        ),
        f"**Herd**: {herd['standbys']} standbys of leasehold on one lease. The time from the drop of the guard to the next "
        f"guard has the median {time(median(times))} and the worst value {time(max(times))} of {len(times)}. In the "
        f"following second the server received {number(median([one['puts'] for one in herd['rounds']]))} PUTs (median, "
        f"including the release), at most {max(one['most_puts_of_one'] for one in herd['rounds'])} from one candidate, "
        f"and at most {max(one['gets'] for one in herd['rounds'])} GETs.",
        f"**Check**: `is_leader()` takes {median(check['is_leader']):.0f} ns. Reading the clock alone takes "
        f"{median(check['clock']):.0f} ns. Both are medians of {len(check['clock'])} batches.",
        "**Method**: `benches/compare/run` repeats all measurements, rewrites this file and stores each value in "
        "`target/compare/results.json`. In the audit log, leader and standby differ by the user that each impersonates. "
        "kube-lease-manager counts in whole seconds and has no retry period, so the benchmark sets a renewal every 2 s, and "
        "every second for the fail-over. The benchmark calls kube-leader-election once per retry period, as its "
        "documentation recommends.",
    ]
    return "\n\n".join(parts) + "\n"


def claims(results):
    """Returns each claim about leasehold, and whether the claim holds in these results."""
    handover, limit = results["handover_seconds"], results["limit_seconds"]["total"]
    failover = results["failover_seconds_past_expiry"]["leasehold"]
    ours, idle, herd = median(handover["leasehold"]), results["idle"]["leasehold"], results["herd"]["rounds"]
    leader, standby = idle["leader"], idle["standby"]
    puts = leader["requests"].get("update", 0)
    faster = median(handover["client-go"]) / ours
    check = median(results["check_nanoseconds"]["is_leader"]) / median(results["check_nanoseconds"]["clock"])
    return [
        (f"handover: {faster:.0f} times faster than client-go's, at least 50", faster >= 50),
        (f"handover: {ours / median(limit):.2f} times the lower bound, at most 2", ours <= 2 * median(limit)),
        (f"handover: p99 {time(percentile(handover['leasehold'], 99))}, under 100 ms",
         percentile(handover["leasehold"], 99) < 0.1),
        (f"fail-over: p99 {time(percentile(failover, 99))} past the expiry, at most 100 ms",
         percentile(failover, 99) <= 0.1),
        (f"standby: {per_minute(standby)} requests per minute, at most 1",
         sum(standby["requests"].values()) <= standby["minutes"]),
        (f"leader: {per_minute(leader)} requests per minute: a PUT every 2 s, at most 1 other, no GET",
         abs(puts - 30 * leader["minutes"]) <= max(1, leader["minutes"])
         and sum(leader["requests"].values()) - puts <= leader["minutes"] and "get" not in leader["requests"]),
        (f"herd: at most {time(max(one['seconds'] for one in herd))}, within 250 ms",
         max(one["seconds"] for one in herd) <= 0.25),
        (f"herd: at most {max(one['most_puts_of_one'] for one in herd)} PUT from one candidate, at most 1",
         max(one["most_puts_of_one"] for one in herd) <= 1),
        (f"check: {check:.2f} times reading the clock alone, at most 2", check <= 2),
        (f"memory: {max(leader['rss_kib'], standby['rss_kib']) / 1024:.2f} MiB, under 6",
         max(leader["rss_kib"], standby["rss_kib"]) < 6 * 1024),
        (f"binary: {results['programs']['leasehold']['stripped_bytes'] / 2**20:.2f} MiB, under 4",
         results["programs"]["leasehold"]["stripped_bytes"] < 4 * 2**20),
    ]


# ---- the plot ----

WIDTH, LEFT, RIGHT = 860, 176, 24
ROW = 40


def plot(results):
    panels = [
        (
            "Graceful handover: SIGTERM until the next leader reports",
            {"limit": results["limit_seconds"]["total"], **results["handover_seconds"]},
            (0.001, 20),
        ),
        (
            "Fail-over after kill -9: expiry of the lease until the next leader reports",
            results["failover_seconds_past_expiry"],
            (0.001, 20),
        ),
    ]
    names = {key: program["name"] for key, program in results["programs"].items()} | {"limit": "lower bound"}
    shapes, y = [], 0
    for title, rows, span in panels:
        y += 34
        shapes.append(f'<text class="title" x="12" y="{y}">{title}</text>')
        y += 16
        top, bottom = y, y + ROW * len(rows)
        shapes += axis(span, top, bottom)
        for key, values in rows.items():
            y += ROW
            shapes += strip(names[key], values, COLOURS[key], span, y - ROW / 2)
        y += 34
    note = "One dot per round; the bar is the median. Logarithmic axis; smaller values are drawn at the left edge."
    shapes.append(f'<text class="note" x="12" y="{y + 6}">{note}</text>')
    height = y + 20
    # GitHub shows the file on white and on near-black, so the greys are legible on both, and there is no background.
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" \
role="img" aria-label="Handover and fail-over times of leasehold and others">
<style>
text {{ font: 13px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #7d8590; }}
.title {{ font-weight: 600; font-size: 14px; }}
.note {{ font-size: 12px; }}
.median {{ font-weight: 600; font-size: 12px; }}
.grid {{ stroke: #7d8590; stroke-opacity: 0.3; }}
.minor {{ stroke: #7d8590; stroke-opacity: 0.12; }}
</style>
{chr(10).join(shapes)}
</svg>
"""


def across(value, span):
    low, high = map(math.log10, span)
    part = (math.log10(max(value, span[0])) - low) / (high - low)
    return LEFT + min(part, 1) * (WIDTH - LEFT - RIGHT)


def axis(span, top, bottom):
    shapes = []
    for exponent in range(math.floor(math.log10(span[0])), math.ceil(math.log10(span[1])) + 1):
        for step in range(1, 10):
            value = step * 10**exponent
            if not span[0] <= value * 1.0001 or value > span[1]:
                continue
            x = across(value, span)
            kind = "grid" if step == 1 else "minor"
            shapes.append(f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>')
            if step == 1:
                label = f"{value * 1000:g} ms" if value < 0.9 else f"{value:g} s"
                shapes.append(f'<text text-anchor="middle" x="{x:.1f}" y="{bottom + 16}">{label}</text>')
    return shapes


def strip(name, values, colour, span, y):
    shapes = [f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{name}</text>']
    for at, value in enumerate(values):
        # Spreads the dots in an irregular order that is the same in every rendering.
        lift = (at * 0.618034 % 1 - 0.5) * ROW * 0.5
        x = across(value, span)
        shapes.append(f'<circle cx="{x:.1f}" cy="{y + lift:.1f}" r="3.2" fill="{colour}" fill-opacity="0.6"/>')
    middle = median(values)
    x = across(middle, span)
    half = ROW * 0.38
    shapes.append(
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - half:.1f}" y2="{y + half:.1f}" stroke="{colour}" stroke-width="3"/>'
    )
    # Placed beside the dots, on the side with enough room.
    left_end, right_end = across(min(values), span), across(max(values), span)
    if right_end + 80 < WIDTH:
        shapes.append(f'<text class="median" x="{right_end + 10:.1f}" y="{y + 4}">{time(middle)}</text>')
    else:
        shapes.append(
            f'<text class="median" text-anchor="end" x="{left_end - 10:.1f}" y="{y + 4}">{time(middle)}</text>'
        )
    return shapes


def summary(results):
    """Returns the table of the README, with one column per contender."""
    programs, idle = results["programs"], results["idle"]
    keys = list(programs)
    limit = median(results["limit_seconds"]["total"])

    def row(head, cell):
        return [head] + [cell(key) for key in keys]

    def requests(key, role):
        return number(sum(idle[key][role]["requests"].values()) / idle[key][role]["minutes"])

    def handover(key):
        values = results["handover_seconds"][key]
        return f"{time(median(values))}, {time(max(values))}"

    def failover(key):
        values = results["failover_seconds_past_expiry"][key]
        return f"{time(median(values))}, {time(max(values))}"

    rows = [
        row("graceful handover: median, worst", handover),
        row("failover, past the lease expiry: median, worst", failover),
        row("requests per minute: leader, standby",
            lambda key: f"{requests(key, 'leader')}, {requests(key, 'standby')}"),
    ]
    head = [""] + [f"{programs[key]['name']} {programs[key]['version']}" for key in keys]
    text = (
        f"{results['rounds']} interleaved rounds on one kube-apiserver {results['kube_apiserver']}, "
        f"{results['machine']['cpus']} CPUs, {results['date']}: compare columns, not absolute times. The lower bound for a "
        f"handover, two writes and one event, took {time(limit)}. [All results](benches/compare/results.md)."
    )
    return f"{table(head, rows)}\n\n{text}\n"


def save(results, directory):
    """Stores each measured value, so that this program can render the results again."""
    path = directory / "results.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    return path


def write(results, directory):
    """Writes the rendered results into `directory`."""
    (directory / "results.md").write_text(markdown(results))
    (directory / "handover.svg").write_text(plot(results))


def publish_part(heading, text):
    """Replaces one part of results.md. The part without a heading is that of the cluster."""
    path = HERE / "results.md"
    before, parts = path.read_text(), {}
    for part in reversed(PARTS):
        before, found, after = before.partition(part)
        parts[part] = found + after
    parts[None] = before
    parts[heading] = text
    path.write_text("\n".join(parts[part].rstrip() + "\n" for part in [None, *PARTS] if parts[part]))


def deliver_part(of, results, name, arguments):
    """Stores, renders and prints the results of one part of results.md, which the module `of` renders."""
    path = arguments.target / f"{name}.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"compare: each value is in {path}", flush=True)
    if arguments.publish:
        of.publish(results)
    else:
        (arguments.target / f"results-{name}.md").write_text(of.markdown(results))
    print(of.markdown(results))
    for claim, holds in of.claims(results):
        print(f"compare: {'holds' if holds else 'DOES NOT HOLD'}: {claim}", flush=True)


def publish(results):
    """Writes the rendered results into the working tree, including the README."""
    publish_part(None, markdown(results))
    (ROOT / "docs/handover.svg").write_text(plot(results))
    readme = ROOT / "README.md"
    before, rest = readme.read_text().split(BEGIN)
    after = rest.split(END)[1]
    readme.write_text(f"{before}{BEGIN}\n\n{summary(results)}\n{END}{after}")


if __name__ == "__main__":
    publish(json.loads(Path(sys.argv[1]).read_text()))
