"""Works while this pod leads, and reports to the sidecar when it has stopped."""
import json, os, signal, time
from urllib.request import ProxyHandler, Request, build_opener

sidecar = os.environ.get("SIDECAR", "http://127.0.0.1:4040")
token_file = os.environ.get("DONE_TOKEN_FILE", "/run/leasehold/done-token")
longest_step = 1.0  # seconds
opener = build_opener(ProxyHandler({}))  # ignores http_proxy
stopping = []
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
now = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)  # counts suspend; time.monotonic() does not

while not stopping:
    sent = now()  # before the request, because the answer may be late
    try:
        answer = json.load(opener.open(sidecar, timeout=2))
        until = sent + answer["remaining_ms"] / 1000
        if (checked := now()) + longest_step < until:  # replace the next line by your work
            print(f"{checked:.3f} works until {until:.3f} with token {answer['fencing_token']}", flush=True)
    except Exception as error:
        print(f"no answer of the sidecar: {error}", flush=True)
    time.sleep(0.5)

with open(token_file) as file:
    done = Request(sidecar + "/done", b"", {"Authorization": "Bearer " + file.read().strip()})
try:
    opener.open(done, timeout=15)
except OSError as error:  # one more attempt; without an answer, the lease expires
    print(f"not released: {error}", flush=True)
    opener.open(done, timeout=15)
