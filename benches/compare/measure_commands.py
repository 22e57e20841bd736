#!/usr/bin/env python3
"""Measures the time from the kill of a command to the start of the next one on the same lease; `run` builds everything."""

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
import report_commands
from cluster import PATIENCE, Server
from servers import Etcd

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

MEGABYTES = 40


def say(text):
    print(f"compare: {text}", flush=True)


class Holder:
    """A process that runs the command while it holds a lock."""

    def __init__(self, arguments, log, processes):
        self.process = processes.enter_context(subprocess.Popen(
            list(map(str, arguments)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            start_new_session=True,
        ))
        # However this program ends, it ends the programs that it started.
        processes.callback(self.end)
        self.lines = b""

    def line(self):
        until = time.monotonic() + PATIENCE
        while b"\n" not in self.lines:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise SystemExit(f"nothing was printed for {PATIENCE} s")
            self.lines += os.read(self.process.stdout.fileno(), 4096)
        line, self.lines = self.lines.split(b"\n", 1)
        return line.decode()

    def began(self):
        """Returns the start time of the command and its process id."""
        while True:
            words = self.line().split()
            # The first line of etcdctl is its key.
            if len(words) == 2 and re.fullmatch(r"\d+\.\d+", words[0]):
                return float(words[0]), int(words[1])

    def holds(self):
        while self.line() != "holds":
            pass

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def rounds(name, arguments, count, log, processes):
    """Returns seconds from SIGKILL of a command to the first line of the next command."""
    leader = Holder(arguments(0), log, processes)
    _, command = leader.began()
    taken = []
    for number in range(1, count + 1):
        standby = Holder(arguments(number), log, processes)
        leader.holds()
        # A random wait favors no moment of a renewal, and lets the standby reach its wait.
        time.sleep(random.uniform(2, 3))
        held = int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{command}/status").read_text())[1])
        since = time.time()
        os.kill(command, signal.SIGKILL)
        began, command = standby.began()
        taken.append(began - since)
        # A candidate that continues is idle now.
        leader.process.terminate()
        leader.process.wait()
        leader = standby
        say(f"{name} {number}/{count}: {taken[-1] * 1000:.1f} ms")
    return {"seconds": taken, "held_kib": held}


def size(program):
    return program.stat().st_size if program.exists() else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--apiserver", type=Path, required=True)
    parser.add_argument("--leasehold", type=Path, required=True)
    parser.add_argument("--static", type=Path, required=True)
    parser.add_argument("--command", type=Path, required=True)
    parser.add_argument("--publish", action="store_true")
    arguments = parser.parse_args()

    load = os.getloadavg()[0]
    scratch = Path(tempfile.mkdtemp(prefix="leasehold-compare-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Server(arguments.apiserver, HERE / "rbac.yaml", scratch))
        etcd = stack.enter_context(Etcd(scratch, None, arguments.apiserver))
        processes = stack.enter_context(contextlib.ExitStack())
        log = processes.enter_context(open(scratch / "stderr.log", "a"))

        command = ["--", arguments.command, MEGABYTES]
        in_cluster = ["--kubeconfig", server.candidate, "--namespace", server.ready["namespace"]]

        def run(lease, *flags):
            election = [arguments.leasehold, "run", *flags, "--lease", lease, "--identity"]
            return lambda number: [*election, f"{lease}-{number}", *command]

        def lock(_):
            # Before 3.4, etcdctl used the API of etcd 2 by default.
            return ["env", "ETCDCTL_API=3", "etcdctl", f"--endpoints={etcd.where}", "lock", "lock", *command]

        results = {
            name: rounds(name, of, arguments.rounds, log, processes)
            for name, of in [
                ("cluster", run("commands", "--restart", *in_cluster)),
                ("cluster_once", run("commands-once", *in_cluster)),
                ("etcd", run("commands", "--restart", "--store", etcd.url)),
                ("etcdctl", lock),
            ]
        }
        version = server.ready["version"]
    shutil.rmtree(scratch)

    etcdctl = subprocess.run(["etcdctl", "version"], env={**os.environ, "ETCDCTL_API": "3"}, check=True, capture_output=True, text=True)
    report.deliver_part(report_commands, {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "kube_apiserver": version,
        "machine": {"cpus": os.cpu_count(), "load_before": round(load, 2)},
        "rounds": arguments.rounds,
        "leasehold": re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1],
        "etcdctl_version": etcdctl.stdout.split()[2],
        "static_bytes": size(arguments.static),
        **results,
    }, "commands", arguments)


if __name__ == "__main__":
    main()
