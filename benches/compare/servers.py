"""The other stores: real servers on loopback with their default durability and temporary data."""

import http.client
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from base64 import b64decode, b64encode
from pathlib import Path

PATIENCE = 60
# PostgreSQL and MariaDB do not run as root.
USER = "nobody" if os.geteuid() == 0 else None


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def bound(command, user=None):
    """Returns a command that ends together with this program."""
    identity = ["--reuid", user, "--regid", "nogroup", "--clear-groups"] if user else []
    return ["setpriv", *identity, "--pdeathsig", "KILL", "--", *map(str, command)]


class Server:
    """A server process during the `with` block, with its data in `directory`."""

    # Whether the store notifies of changes. Otherwise candidates poll.
    notifies = True
    stop_signal = signal.SIGTERM
    user = USER

    def __init__(self, scratch, programs):
        self.programs = programs
        self.directory = scratch / self.key
        self.directory.mkdir()
        if self.user:
            shutil.chown(self.directory, self.user)
        self.port = free_port()
        self.where = f"127.0.0.1:{self.port}"
        self.log = open(scratch / f"{self.key}.log", "a")
        self.process = None

    def __enter__(self):
        try:
            self.process = subprocess.Popen(
                bound(self.command(), self.user), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            )
            self.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        # The log stays, to explain failures.
        self.log.close()
        shutil.rmtree(self.directory)

    def set_up(self, command, text=None):
        done = subprocess.run(bound(command, self.user), input=text, stdout=self.log, stderr=self.log, text=True)
        if done.returncode:
            raise SystemExit(f"{self.key} could not be set up; see {self.log.name}")

    def wait_until_ready(self):
        until = time.monotonic() + PATIENCE
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{self.key} did not start; see {self.log.name}")
            time.sleep(0.1)

    def query(self, sql):
        """Returns the rows as texts, or `None` if the server does not answer."""
        done = subprocess.run(
            [self.programs / "stores", "query", self.key, self.where, sql], capture_output=True, text=True,
        )
        return None if done.returncode else done.stdout.splitlines()

    def is_ready(self):
        return self.query("SELECT 1") is not None

    def rows(self):
        """Returns all records of leasehold as texts."""
        return self.query("SELECT * FROM leasehold") or []


class Etcd(Server):
    key = "etcd"
    # Its program is in this repository, which another user may not be able to read.
    user = None
    limit = "a transaction, its event, a transaction, by the JSON gateway"

    def __init__(self, scratch, programs, apiserver):
        super().__init__(scratch, programs)
        self.apiserver = apiserver
        self.url = f"etcd://{self.where}/compare/"

    def command(self):
        client, peer = f"http://{self.where}", f"http://127.0.0.1:{free_port()}"
        return [
            self.apiserver, "etcd", "--name=m0", f"--data-dir={self.directory}", "--log-level=error",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=m0={peer}",
        ]

    def post(self, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("POST", path, json.dumps(body))
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def is_ready(self):
        try:
            return "header" in self.post("/v3/kv/range", {"key": "AA=="})
        except OSError:
            return False

    def rows(self):
        first, end = (b64encode(key).decode() for key in (b"compare/", b"compare0"))
        found = self.post("/v3/kv/range", {"key": first, "range_end": end})
        return [b64decode(kv["value"]).decode() for kv in found.get("kvs", [])]

    def name(self):
        return f"etcd {self.post('/v3/maintenance/status', {})['version']}"


class Postgres(Server):
    key = "postgres"
    limit = "an UPDATE with NOTIFY, a SELECT, an UPDATE with NOTIFY"
    # A fast shutdown, which does not wait for clients.
    stop_signal = signal.SIGINT

    def __init__(self, scratch, programs):
        super().__init__(scratch, programs)
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda it: int(it.parent.parent.name))
        if not found:
            raise SystemExit("PostgreSQL is not installed under /usr/lib/postgresql")
        self.bin = found[-1].parent
        self.url = f"postgres://leasehold:password@{self.where}/leasehold"

    def command(self):
        data = self.directory / "data"
        self.set_up([self.bin / "initdb", "-D", data, "-A", "trust", "-U", "leasehold"])
        # The single-user mode needs no running server.
        self.set_up([self.bin / "postgres", "--single", "-D", data, "postgres"], "CREATE DATABASE leasehold\n")
        return [self.bin / "postgres", "-D", data, "-h", "127.0.0.1", "-p", self.port, "-k", "", "-c", "timezone=UTC"]

    def name(self):
        return f"PostgreSQL {self.query('SHOW server_version')[0].split()[0]}"


class MySql(Server):
    key = "mysql"
    limit = "an UPDATE, a SELECT every 50 ms, an UPDATE"
    notifies = False

    def __init__(self, scratch, programs):
        super().__init__(scratch, programs)
        self.url = f"mysql://leasehold:password@{self.where}/leasehold"

    def command(self):
        data, users = self.directory / "data", self.directory / "users.sql"
        self.set_up(["mkdir", data])
        server = ["mariadbd", "--no-defaults", f"--datadir={data}"]
        # The steps of mariadb-install-db, which needs programs of other packages.
        parts = [Path("/usr/share/mysql") / f"mysql_{part}.sql" for part in
                 ("system_tables", "performance_tables", "system_tables_data")]
        tables = "".join(part.read_text() for part in parts)
        self.set_up([*server, "--bootstrap"], f"CREATE DATABASE mysql;\nUSE mysql;\n{tables}")
        users.write_text(
            "CREATE DATABASE leasehold;\n"
            "CREATE USER leasehold@'%' IDENTIFIED BY 'password';\n"
            "CREATE USER bare@'%';\n"
            "GRANT ALL ON leasehold.* TO leasehold@'%', bare@'%';\n"
        )
        return [
            *server, f"--init-file={users}", "--bind-address=127.0.0.1", f"--port={self.port}",
            f"--socket={self.directory / 'socket'}", "--skip-name-resolve", "--default-time-zone=+00:00",
        ]

    def name(self):
        return f"MariaDB {self.query('SELECT version()')[0].split('-')[0]}"


class Sqlite:
    """A file instead of a server."""

    key = "sqlite"
    limit = "an UPDATE and a touch, inotify, a SELECT, an UPDATE and a touch"
    notifies = True

    def __init__(self, scratch, programs):
        self.programs = programs
        self.directory = scratch / self.key
        self.directory.mkdir()
        self.path = self.directory / "election.db"
        self.url = f"sqlite://{self.path}"
        # A second file, because a write locks the whole file.
        self.where = str(self.directory / "limit.db")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory)

    def rows(self):
        connection = sqlite3.connect(self.path)
        try:
            return [str(row) for row in connection.execute("SELECT * FROM leasehold")]
        finally:
            connection.close()

    def name(self):
        version = subprocess.run([self.programs / "stores", "version"], check=True, capture_output=True, text=True)
        return f"SQLite {version.stdout.strip()}"
