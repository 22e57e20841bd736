"""The real kube-apiserver, its audit log, and the processes that campaign on it."""

import base64
import http.client
import json
import os
import re
import select
import signal
import ssl
import subprocess
import threading
import time
from pathlib import Path

PATIENCE = 60


class Server:
    """Runs tests/apiserver until the end of the `with` block, which closes its standard input."""

    def __init__(self, program, rbac, scratch):
        self.scratch = scratch
        self.process = subprocess.Popen(
            [program, "--dir", scratch / "apiserver", "--rbac", rbac],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the real kube-apiserver did not start")
        self.ready = json.loads(line)
        self.candidate = self.ready["kubeconfigs"]["candidate"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(PATIENCE)

    def kubeconfig_for(self, user):
        """Returns a kubeconfig that impersonates `user`, so that the audit log shows that name."""
        path = self.scratch / f"{user}.kubeconfig"
        text = Path(self.ready["kubeconfigs"]["admin-impersonating-candidate"]).read_text()
        path.write_text(text.replace("as: candidate", f"as: {user}\n    as-groups: [system:masters]"))
        return path

    def requests(self, since, until):
        """Returns user and verb of each request received between two times, in seconds since 1970.

        A watch has one event for its start and one for its end, both with the time and the `auditID` of its start.
        """
        since, until = wall(since), wall(until)
        requests = {}
        with open(self.ready["audit_log"]) as log:
            for line in log:
                event = json.loads(line)
                if since <= event["requestReceivedTimestamp"] < until:
                    user = event.get("impersonatedUser", event["user"])["username"]
                    requests[event["auditID"]] = user, event["verb"]
        return list(requests.values())


def wall(now):
    """Formats seconds since 1970 as the audit log does."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06d}Z"


class Watch(threading.Thread):
    """Records when each lease last changed, as a watch reports it."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.changed = {}
        text = Path(server.ready["kubeconfigs"]["admin"]).read_text()
        files = {}
        for field in ("certificate-authority", "client-certificate", "client-key"):
            files[field] = server.scratch / f"admin.{field}"
            files[field].write_bytes(base64.b64decode(re.search(rf"{field}-data: (\S+)", text)[1]))
        tls = ssl.create_default_context(cafile=files["certificate-authority"])
        tls.load_cert_chain(files["client-certificate"], files["client-key"])
        host, port = re.match(r"https://([^:]+):(\d+)", server.ready["url"]).groups()
        self.connection = http.client.HTTPSConnection(host, int(port), context=tls)
        namespace = server.ready["namespace"]
        self.connection.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases?watch=true")
        self.answer = self.connection.getresponse()
        if self.answer.status != 200:
            raise SystemExit(f"cannot watch leases: {self.answer.read()}")

    def run(self):
        for line in self.answer:
            received = time.monotonic()
            event = json.loads(line)
            if event["type"] in ("ADDED", "MODIFIED"):
                self.changed[event["object"]["metadata"]["name"]] = (received, event["object"]["spec"])


class Candidate:
    """A process that campaigns."""

    def __init__(self, contender, kubeconfig, lease, identity, timings, log, stdin=subprocess.DEVNULL):
        self.identity = identity
        self.process = subprocess.Popen(
            contender.command(kubeconfig, lease, identity, timings),
            stdin=stdin, stdout=subprocess.PIPE, stderr=log, bufsize=0,
        )
        self.lines = Lines(self.process.stdout)

    def wait_for(self, event, patience=PATIENCE):
        """Waits until the process prints `event`, and returns the time of the event."""
        while True:
            line = self.lines.next(patience)
            if line["event"] == event:
                return line["mono"]

    def started_leading(self, patience=PATIENCE):
        """Waits until the process leads, and returns the time since when it leads."""
        return self.wait_for("started_leading", patience)

    def end(self, with_signal):
        """Sends a signal and returns the time, without waiting."""
        at = time.monotonic()
        self.process.send_signal(with_signal)
        return at

    def status(self):
        """Returns the resident memory in KiB and the number of threads."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return {
            "rss_kib": int(re.search(r"VmRSS:\s+(\d+)", text)[1]),
            "rss_own_kib": int(re.search(r"RssAnon:\s+(\d+)", text)[1]),
            "threads": int(re.search(r"Threads:\s+(\d+)", text)[1]),
        }

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


class Lines:
    """JSON lines of a pipe, each with a time limit."""

    def __init__(self, pipe):
        self.pipe = pipe
        self.buffer = b""

    def next(self, patience=PATIENCE):
        until = time.monotonic() + patience
        while b"\n" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.pipe], [], [], left)[0]:
                raise SystemExit(f"nothing was printed for {patience} s")
            data = os.read(self.pipe.fileno(), 65536)
            if not data:
                raise SystemExit("a program ended too early; its errors are in the scratch directory")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)


def rounds_of(command, processes, log):
    """Starts a program that does one round for each line of input. Returns a function that does one round."""
    process = processes.enter_context(subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0,
    ))
    # The program ends at the end of its input.
    processes.callback(process.stdin.close)
    lines = Lines(process.stdout)
    lines.next()

    def once():
        process.stdin.write(b"\n")
        return lines.next()
    return once
