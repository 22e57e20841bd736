"""Who takes part on each of the other stores, and how each is started."""

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
    # From a server, the name of what is campaigned for, an identity and the timings to the words of the command line.
    words: Callable
    # Whether a lease has to run out before a dead leader is replaced.
    has_lease: bool = True

    def command(self, server, lease, identity, timings):
        return [str(word) for word in self.words(server, lease, identity, timings)]


# What etcdctl's sessions last, which it has no flag for.
ELECT_SECONDS = 60


def contenders(home: Path, peers: Path) -> list[StoreContender]:
    def leasehold(server, lease, identity, timings):
        flags = {"--store": server.url, "--lease-lock-name": lease, "--id": identity, **timings}
        return [home / "leader_election", *(word for flag in flags.items() for word in flag)]

    def elect(server, lease, identity, _):
        # Before 3.4 it spoke to etcd 2.
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
    """Whether leasehold has this store: it says so before it connects."""
    with subprocess.Popen(
        contender.command(server, "probe", "probe", {}), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:
        try:
            process.wait(1)
        except subprocess.TimeoutExpired:
            process.kill()
        return "there is no such store" not in process.stderr.read()


class Elect(Candidate):
    """etcdctl prints its key and what it proposed when it leads, and no time: that is when the line is read."""

    def __init__(self, contender, server, lease, identity, timings, log):
        super().__init__(contender, server, lease, identity, timings, log)
        self.lines = Stamped(self.process.stdout, identity)


class Stamped(threading.Thread):
    """Lines, and when each came."""

    def __init__(self, pipe, identity):
        super().__init__(daemon=True)
        self.pipe, self.identity = pipe, identity
        self.read = queue.Queue()
        self.start()

    def run(self):
        buffer = b""
        # Unbuffered: as much as there is.
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
