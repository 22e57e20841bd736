#!/usr/bin/env python3
"""The results as Markdown, as a plot, and as the table of the README.

    report.py RESULTS_JSON     renders them again, here and in the README; `run` says where it left the file
"""

import json
import math
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

# What stands between these in the README is written by this program.
BEGIN = "<!-- measured by benches/compare/run -->"
END = "<!-- end -->"

# From here on results.md is written by report_hangs.py, report_commands.py and report_stores.py.
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
    """The nearest rank: always one of the values. With fewer than a hundred of them p99 is the worst."""
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
        f"Measured on {results['date']} on a real kube-apiserver {results['kube_apiserver']} and its etcd, all on one "
        f"machine with {results['machine']['cpus']} CPUs; {results['rounds']} interleaved rounds. Only what stands in "
        "one table compares: the machine's absolute times are not the point. p99 of fewer than 100 rounds is the worst.",
        f"**Graceful handover**: from SIGTERM of the leader to the standby's first word as leader, with "
        f"{timings(results['timings']['handover_and_idle'])} (lease duration/renew deadline/retry period).",
        table(
            ["", "median", "p90", "p99", "worst", "median, ours = 1"],
            [[name(key), *spread(handover[key]), number(median(handover[key]) / ours)] for key in keys]
            + [["the limit: a PUT, its event, a PUT", *spread(limit), number(median(limit) / ours, 2)]],
        ),
        f"**Fail-over** after `kill -9`, with {timings(results['timings']['failover'])}: how long after the expiry of "
        "the lease, counted from the event of its last renewal, the standby's first word as leader comes.",
        table(["", "median", "p90", "p99", "worst"], [[name(key), *spread(failover[key])] for key in keys]),
        f"**When nothing happens**: requests a minute, from the server's audit log over "
        f"{number(minutes)} minute{'' if minutes == 1 else 's'} beside the handovers of others, and what the processes hold after that.",
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
        "**What it is made of**: the program that was measured, with what it needs to read a kubeconfig.",
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
        f"**A herd**: {herd['standbys']} standbys of ours on one lease. From the drop of the guard to the next one: "
        f"median {time(median(times))}, worst {time(max(times))} of {len(times)}. In the second after it the server saw "
        f"{number(median([one['puts'] for one in herd['rounds']]))} PUTs (median; the release is one of them), at most "
        f"{max(one['most_puts_of_one'] for one in herd['rounds'])} from any one candidate, and at most "
        f"{max(one['gets'] for one in herd['rounds'])} GETs.",
        f"**The check**: `is_leader()` takes {median(check['is_leader']):.0f} ns, reading the clock alone "
        f"{median(check['clock']):.0f} ns (medians of {len(check['clock'])} batches).",
        "How: `benches/compare/run` measures all of this anew, rewrites this file and leaves each value in "
        "`target/compare/results.json`. Leader and standby are told apart in the audit log by the user that each "
        "impersonates. kube-lease-manager counts in whole seconds and has no retry period: it is told to renew every "
        "2 s (in the fail-over, every second). kube-leader-election is called every retry period, as its documentation "
        "has it.",
    ]
    return "\n\n".join(parts) + "\n"


def claims(results):
    """What is promised of leasehold, and whether it holds in these results."""
    handover, limit = results["handover_seconds"], results["limit_seconds"]["total"]
    failover = results["failover_seconds_past_expiry"]["leasehold"]
    ours, idle, herd = median(handover["leasehold"]), results["idle"]["leasehold"], results["herd"]["rounds"]
    leader, standby = idle["leader"], idle["standby"]
    puts = leader["requests"].get("update", 0)
    faster = median(handover["client-go"]) / ours
    check = median(results["check_nanoseconds"]["is_leader"]) / median(results["check_nanoseconds"]["clock"])
    return [
        (f"handover: {faster:.0f} times faster than client-go's, at least 50", faster >= 50),
        (f"handover: {ours / median(limit):.2f} times the limit, at most 2", ours <= 2 * median(limit)),
        (f"handover: p99 {time(percentile(handover['leasehold'], 99))}, under 100 ms",
         percentile(handover["leasehold"], 99) < 0.1),
        (f"fail-over: p99 {time(percentile(failover, 99))} past the expiry, at most 100 ms",
         percentile(failover, 99) <= 0.1),
        (f"standby: {per_minute(standby)} requests a minute, at most 1",
         sum(standby["requests"].values()) <= standby["minutes"]),
        (f"leader: {per_minute(leader)} requests a minute: a PUT every 2 s, at most 1 other, no GET",
         abs(puts - 30 * leader["minutes"]) <= max(1, leader["minutes"])
         and sum(leader["requests"].values()) - puts <= leader["minutes"] and "get" not in leader["requests"]),
        (f"herd: at most {time(max(one['seconds'] for one in herd))}, within 250 ms",
         max(one["seconds"] for one in herd) <= 0.25),
        (f"herd: at most {max(one['most_puts_of_one'] for one in herd)} PUT from any one, at most 1",
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
            "Graceful handover: SIGTERM to the next leader's first word",
            {"limit": results["limit_seconds"]["total"], **results["handover_seconds"]},
            (0.001, 20),
        ),
        (
            "Fail-over after kill -9: from the lease's expiry to the next leader's first word",
            results["failover_seconds_past_expiry"],
            (0.001, 20),
        ),
    ]
    names = {key: program["name"] for key, program in results["programs"].items()} | {"limit": "the limit"}
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
    note = "One dot a round, the bar is the median. Log axis; at or before the left edge counts as there."
    shapes.append(f'<text class="note" x="12" y="{y + 6}">{note}</text>')
    height = y + 20
    # GitHub shows the same file on white and on near-black: greys that are legible on both, and no background.
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
        # Apart from each other in an order that looks like none, but is the same each time.
        lift = (at * 0.618034 % 1 - 0.5) * ROW * 0.5
        x = across(value, span)
        shapes.append(f'<circle cx="{x:.1f}" cy="{y + lift:.1f}" r="3.2" fill="{colour}" fill-opacity="0.6"/>')
    middle = median(values)
    x = across(middle, span)
    half = ROW * 0.38
    shapes.append(
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - half:.1f}" y2="{y + half:.1f}" stroke="{colour}" stroke-width="3"/>'
    )
    # Beside the dots, where there is room.
    left_end, right_end = across(min(values), span), across(max(values), span)
    if right_end + 80 < WIDTH:
        shapes.append(f'<text class="median" x="{right_end + 10:.1f}" y="{y + 4}">{time(middle)}</text>')
    else:
        shapes.append(
            f'<text class="median" text-anchor="end" x="{left_end - 10:.1f}" y="{y + 4}">{time(middle)}</text>'
        )
    return shapes


def summary(results):
    """The table of the README: one column a contender."""
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

    def build(key):
        seconds = programs[key]["clean_build_seconds"]
        return f"{seconds:.0f} s" if seconds else ""

    rows = [
        row("graceful handover: median, worst", handover),
        row("fail-over past the expiry: median, worst", failover),
        row("requests a minute of a leader, of a standby",
            lambda key: f"{requests(key, 'leader')}, {requests(key, 'standby')}"),
        row("memory of a leader", lambda key: f"{idle[key]['leader']['rss_kib'] / 1024:.1f} MiB"),
        row("stripped binary", lambda key: f"{programs[key]['stripped_bytes'] / 2**20:.1f} MiB"),
        row("crates in the tree", lambda key: str(programs[key]["crates"] or "")),
        row("clean release build", build),
    ]
    head = [""] + [f"{programs[key]['name']} {programs[key]['version']}" for key in keys]
    herd = max(one["seconds"] for one in results["herd"]["rounds"])
    text = (
        f"{results['rounds']} interleaved rounds on one kube-apiserver {results['kube_apiserver']} with its etcd, on a "
        f"machine with {results['machine']['cpus']} CPUs, {results['date']}: compare the columns, not the milliseconds "
        f"with yours. A bare write, its event and a bare write, without which there is no handover, took {time(limit)} in "
        f"rounds of their own. With {results['herd']['standbys']} standbys of ours on one Lease the longest handover took "
        f"{time(herd)}. [Everything measured](benches/compare/results.md), by `benches/compare/run`."
    )
    return f"{table(head, rows)}\n\n{text}\n"


def save(results, directory):
    """Each value that was measured: what this program renders again."""
    path = directory / "results.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    return path


def write(results, directory):
    """Into a directory of one's own."""
    (directory / "results.md").write_text(markdown(results))
    (directory / "handover.svg").write_text(plot(results))


def publish_part(heading, text):
    """Into results.md, in place of what stands under that heading; the part that has none is about a cluster."""
    path = HERE / "results.md"
    before, parts = path.read_text(), {}
    for part in reversed(PARTS):
        before, found, after = before.partition(part)
        parts[part] = found + after
    parts[None] = before
    parts[heading] = text
    path.write_text("\n".join(parts[part].rstrip() + "\n" for part in [None, *PARTS] if parts[part]))


def deliver_part(of, results, name, arguments):
    """What was measured of a part of results.md, by the module that renders it: into files, and told."""
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
    """Into the tree, the README included."""
    publish_part(None, markdown(results))
    (ROOT / "docs/handover.svg").write_text(plot(results))
    readme = ROOT / "README.md"
    before, rest = readme.read_text().split(BEGIN)
    after = rest.split(END)[1]
    readme.write_text(f"{before}{BEGIN}\n\n{summary(results)}\n{END}{after}")


if __name__ == "__main__":
    publish(json.loads(Path(sys.argv[1]).read_text()))
