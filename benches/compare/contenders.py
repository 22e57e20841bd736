"""The contenders on a cluster, and how to start them."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Contender:
    key: str
    name: str
    program: Path
    lease_flag: str = "--lease"

    def command(self, kubeconfig, lease, identity, timings):
        flags = {"--kubeconfig": kubeconfig, self.lease_flag: lease, "--id": identity, **timings}
        return [str(self.program), *(str(word) for flag in flags.items() for word in flag)]


def contenders(target: Path) -> list[Contender]:
    peers = target / "peers/release"
    return [
        Contender("leasehold", "leasehold", peers / "peer-leasehold", "--lease-lock-name"),
        Contender("client-go", "client-go", target.parent / "client-go/client-go"),
        Contender("kube-leader-election", "kube-leader-election", peers / "peer-kube-leader-election"),
        Contender("kube-lease-manager", "kube-lease-manager", peers / "peer-kube-lease-manager"),
    ]
