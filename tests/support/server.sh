# LOG SCRATCH COMMAND...: a server that ends with this shell's input, and with it the test that began it, however that ends.
# Between, it does what it reads: `pause`, `resume`, and `kill`, which leaves the scratch directory.
log=$1
scratch=$2
shift 2
"$@" </dev/null >>"$log" 2>&1 &
server=$!
echo "$server"

look() { # PROCESS: sets its state and its parent
    state=- parent=-
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
    # The name before it may have anything in it.
    set -- ${stat##*) }
    state=$1 parent=$2
}

tell() { # SIGNAL STATES PARENT PROCESS...: returns when all are in one of the states, or gone
    signal=$1 states=$2 of=$3
    shift 3
    for process; do
        # A number may be another's by now.
        while look "$process" && [ "$parent" = "$of" ]; do
            case $state in [$states]) break ;; esac
            kill -s "$signal" "$process"
            sleep 0.002
        done
    done
}

# PostgreSQL has a process for each connection, each a group and a session of its own: so groups are of no use.
children() {
    for directory in /proc/[0-9]*; do
        look "${directory#/proc/}"
        [ "$parent" != "$server" ] || echo "${directory#/proc/}"
    done
}

pause() {
    # Who is stopped begins no others.
    tell STOP TtZX $$ "$server"
    tell STOP TtZX "$server" $(children)
}

end() {
    pause
    # First the children: who lives on keeps the data directory locked.
    tell KILL ZX "$server" $(children)
    tell KILL ZX $$ "$server"
    wait
    # PostgreSQL's segment, which a system has few of.
    while read -r _ segment _ _ creator _ attached _; do
        [ "$creator $attached" != "$server 0" ] || ipcrm -m "$segment"
    done </proc/sysvipc/shm
} 2>/dev/null

while read -r request; do
    case $request in
    pause) pause ;;
    resume)
        tell CONT RSDIZX "$server" $(children)
        tell CONT RSDIZX $$ "$server"
        ;;
    kill)
        end
        exit
        ;;
    esac
    echo done
done
end
rm -rf "$scratch"
