"""A candidate on the leader election of Python's `kubernetes`: it never releases, so whoever ends it kills it.

It prints what examples/leader_election.rs prints, one JSON object a line.
"""

import argparse
import json
import threading
import time

from kubernetes import config
from kubernetes.leaderelection.electionconfig import Config
from kubernetes.leaderelection.leaderelection import LeaderElection
from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

parser = argparse.ArgumentParser()
parser.add_argument("--kubeconfig", required=True)
parser.add_argument("--lock-type", choices=["configmaps", "leases"], required=True)
parser.add_argument("--name", required=True)
parser.add_argument("--namespace", required=True)
parser.add_argument("--id", required=True)
# In whole seconds; these are the shortest that it takes.
parser.add_argument("--lease-duration", type=int, default=3)
parser.add_argument("--renew-deadline", type=int, default=2)
parser.add_argument("--retry-period", type=int, default=1)
arguments = parser.parse_args()

HEARTBEAT = 0.01
stopped = threading.Event()


def say(event, mono=None, **more):
    line = {"event": event, "identity": arguments.id, "mono": mono or time.clock_gettime(time.CLOCK_MONOTONIC), **more}
    print(json.dumps(line), flush=True)


def lead():
    say("started_leading")
    while True:
        # Taken before the check that it reports.
        mono = time.clock_gettime(time.CLOCK_MONOTONIC)
        if stopped.is_set():
            return
        say("leading", mono)
        time.sleep(HEARTBEAT)


def stop():
    stopped.set()
    say("stopped_leading")


def follow(election):
    """It tells nobody who leads: looks at what it has observed."""
    leader = None
    while True:
        observed = election.observed_record
        if observed is not None and observed.holder_identity != leader:
            leader = observed.holder_identity
            say("new_leader", leader=leader)
        time.sleep(0.05)


config.load_kube_config(config_file=arguments.kubeconfig)
lock = {"configmaps": ConfigMapLock, "leases": LeaseLock}[arguments.lock_type]
election = LeaderElection(
    Config(
        lock(arguments.name, arguments.namespace, arguments.id),
        lease_duration=arguments.lease_duration,
        renew_deadline=arguments.renew_deadline,
        retry_period=arguments.retry_period,
        onstarted_leading=lead,
        onstopped_leading=stop,
    )
)
threading.Thread(target=follow, args=(election,), daemon=True).start()
election.run()
