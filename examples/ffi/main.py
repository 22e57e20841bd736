"""Leads in an asyncio loop, shows that a forked child is refused, and releases the lease.

    python3 main.py LIBRARY [KUBECONFIG]
"""

import asyncio
import ctypes
import os
import sys

FORKED = 9
WAKE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
library = ctypes.CDLL(sys.argv[1])
library.leasehold_start.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_void_p]
library.leasehold_campaign.argtypes = [ctypes.c_void_p, WAKE, ctypes.c_void_p, ctypes.c_void_p]
library.leasehold_last_error.restype = ctypes.c_char_p
library.leasehold_is_leader.restype = ctypes.c_bool
library.leasehold_token.restype = ctypes.c_uint64
library.leasehold_take.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
library.leasehold_acquire.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
for name in ["is_leader", "token", "release", "withdraw", "free"]:
    getattr(library, "leasehold_" + name).argtypes = [ctypes.c_void_p]


def check(code):
    if code != 0:
        raise RuntimeError(f"{code}: {library.leasehold_last_error().decode()}")


async def lead(elector):
    loop, decided = asyncio.get_running_loop(), asyncio.Event()
    wake = WAKE(lambda _: loop.call_soon_threadsafe(decided.set))
    campaign, guard = ctypes.c_void_p(), ctypes.c_void_p()
    check(library.leasehold_campaign(elector, wake, None, ctypes.byref(campaign)))
    await decided.wait()
    check(library.leasehold_take(campaign, ctypes.byref(guard)))
    library.leasehold_withdraw(campaign)
    print("leads, with token", library.leasehold_token(guard))
    child = os.fork()
    if child == 0:
        # The child is a copy without the renewing threads. The child has no lease to release.
        nothing = ctypes.byref(ctypes.c_void_p())
        refused = [library.leasehold_campaign(elector, wake, None, nothing), library.leasehold_release(guard)]
        refused.append(library.leasehold_acquire(elector, 0, nothing))
        library.leasehold_free(elector)
        os._exit(0 if refused == [FORKED] * 3 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child was not refused"
    assert library.leasehold_is_leader(guard), "a child does not end the term"
    for _ in range(3):
        await asyncio.sleep(0.1)  # one unit of work
    check(library.leasehold_release(guard))
    print("released")


elector = ctypes.c_void_p()
kubeconfig = sys.argv[2].encode() if len(sys.argv) > 2 else None
check(library.leasehold_start(b"from-python", kubeconfig, 0, ctypes.byref(elector)))
asyncio.run(lead(elector))
library.leasehold_free(elector)
