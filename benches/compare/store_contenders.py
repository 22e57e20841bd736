"""The contenders on the other stores, and how to start them."""

import queue
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from cluster import PATIENCE, Candidate


@dataclass(frozen=True)
class StoreContender:
    key: str
    name: str
    store: str
    # Returns the command line for a server, a lease, an identity and the timings.
    words: Callable
    # Whether a lease must expire before a standby replaces a killed leader.
    has_lease: bool = True

    def command(self, server, lease, identity, timings):
        return [str(word) for word in self.words(server, lease, identity, timings)]


# The lease of a session of etcdctl, which no flag changes.
ELECT_SECONDS = 60


def contenders(home: Path, peers: Path) -> list[StoreContender]:
    def leasehold(server, lease, identity, timings):
        flags = {"--store": server.url, "--lease-lock-name": lease, "--id": identity, **timings}
        return [home / "leader_election", *(word for flag in flags.items() for word in flag)]

    def elect(server, lease, identity, _):
        # Before 3.4, etcdctl used the API of etcd 2 by default.
        return ["env", "ETCDCTL_API=3", "etcdctl", f"--endpoints={server.where}", "elect", lease, identity]

    def session(server, lease, *_):
        return [peers / "stores", "lock", server.key, server.where, lease, "session"]

    def poller(server, lease, _, timings):
        return [peers / "stores", "lock", server.key, server.where, lease, timings["--retry-period"]]

    return [
        StoreContender("leasehold-etcd", "leasehold", "etcd", leasehold),
        StoreContender("etcdctl", "etcdctl elect", "etcd", elect),
        StoreContender("leasehold-sqlite", "leasehold", "sqlite", leasehold),
        StoreContender("leasehold-postgres", "leasehold", "postgres", leasehold),
        StoreContender("pg-session", "pg_advisory_lock", "postgres", session, has_lease=False),
        StoreContender("pg-poller", "pg_try_advisory_lock, every retry period", "postgres", poller, has_lease=False),
        StoreContender("leasehold-mysql", "leasehold", "mysql", leasehold),
        StoreContender("mysql-session", "GET_LOCK", "mysql", session, has_lease=False),
    ]


def is_there(contender, server):
    """Returns whether the program is built with this store. The program reports a missing store before it connects."""
    with subprocess.Popen(
        contender.command(server, "probe", "probe", {}), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:
        try:
            process.wait(1)
        except subprocess.TimeoutExpired:
            process.kill()
        return "unknown store" not in process.stderr.read()


class Elect(Candidate):
    """A candidate of etcdctl, which prints its key and its proposal when it leads, without a time. The time of reading counts."""

    def __init__(self, contender, server, lease, identity, timings, log):
        super().__init__(contender, server, lease, identity, timings, log)
        self.lines = Stamped(self.process.stdout, identity)


class Stamped(threading.Thread):
    """Lines of a pipe, each with its time of arrival."""

    def __init__(self, pipe, identity):
        super().__init__(daemon=True)
        self.pipe, self.identity = pipe, identity
        self.read = queue.Queue()
        self.start()

    def run(self):
        buffer = b""
        # Unbuffered, so `read` returns the available bytes.
        while data := self.pipe.read(4096):
            now = time.monotonic()
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                is_ours = line.decode() == self.identity
                self.read.put({"event": "started_leading" if is_ours else "other", "mono": now})

    def next(self, patience=PATIENCE):
        try:
            return self.read.get(timeout=patience)
        except queue.Empty:
            raise SystemExit(f"etcdctl printed nothing for {patience} s") from None


def candidate(contender, *arguments):
    return (Elect if contender.key == "etcdctl" else Candidate)(contender, *arguments)
