#!/bin/sh
# Works while this pod leads, and reports to the sidecar when it has stopped. Needs curl.
sidecar=${SIDECAR:-http://127.0.0.1:4040} token_file=${DONE_TOKEN_FILE:-/run/leasehold/done-token}
longest_step=1000 # milliseconds
trap 'stopping=1' TERM
now() { read -r up _ </proc/uptime && echo "${up%.*}${up#*.}0"; } # milliseconds, rounded down to 10; counts suspend
field() { echo "$answer" | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }

while [ -z "$stopping" ]; do
    sent=$(now) # before the request, because the answer may be late
    answer=$(curl --noproxy '*' --fail --silent --show-error --max-time 2 "$sidecar/")
    remaining=$(field remaining_ms)
    until=$((sent + ${remaining:-0})) checked=$(now)
    if [ $((checked + 10 + longest_step)) -lt "$until" ]; then # replace the next line by your work
        echo "$checked works until $until with token $(field fencing_token)"
    fi
    sleep 0.5
done

printf 'Authorization: Bearer %s' "$(cat "$token_file")" |
    curl --noproxy '*' --fail --silent --show-error --max-time 30 --retry 1 --retry-all-errors --request POST --header @- "$sidecar/done"
