"""Write stamps from several processes, so that a test can detect two commands that run at the same time.

    worker.py FILE [stubborn] [children|orphans|sessions|breed|threads]
"""

import os
import signal
import sys
import threading
import time

stamps = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)
kinds = sys.argv[2:]
token = os.environ["LEASEHOLD_FENCING_TOKEN"]

# No process outlives a test that was killed before it could kill the process.
end = time.monotonic() + 300


def stamp(what="works"):
    now = time.clock_gettime(time.CLOCK_MONOTONIC)
    os.write(stamps, f"{token} {os.getpid()} {now:.6f} {what}\n".encode())


def work(until=end):
    while time.monotonic() < until:
        stamp()
        time.sleep(0.005)


def terminate(signum, frame):
    stamp("sigterm")
    if "stubborn" not in kinds:
        os._exit(9)


def child(then):
    if os.fork() == 0:
        then()
        os._exit(0)


def session():
    os.setsid()
    child(work)
    work()


def breed():
    # Each process starts its own session, works for 30 ms, starts the next process, and exits.
    while time.monotonic() < end and os.fork() == 0:
        os.setsid()
        work(time.monotonic() + 0.03)


signal.signal(signal.SIGTERM, terminate)
stamp("begins")
if "children" in kinds:
    child(work)
    child(work)
if "orphans" in kinds:
    child(lambda: child(work))
if "sessions" in kinds:
    child(session)
    child(lambda: child(session))
if "breed" in kinds:
    child(breed)
if "threads" in kinds:
    # With many threads, the process needs a while to exit. Meanwhile, the supervisor may look for its children.
    for _ in range(30):
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
work()
