# LOG SCRATCH COMMAND...: runs COMMAND as a server, and ends the server when the input of this shell ends. The input
# ends when the test process ends or is killed. The shell then removes the directory SCRATCH. The shell reads requests
# from its input: `pause`, `resume`, and `kill`, which ends the server and keeps SCRATCH.
log=$1
scratch=$2
shift 2
"$@" </dev/null >>"$log" 2>&1 &
server=$!
echo "$server"

look() { # PROCESS: sets `state` and `parent` to the values of PROCESS
    state=- parent=-
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
    # The line begins with the process name in parentheses. The name may itself contain spaces and parentheses.
    set -- ${stat##*) }
    state=$1 parent=$2
}

tell() { # SIGNAL STATES PARENT PROCESS...: sends SIGNAL until each PROCESS is in one of STATES or gone
    signal=$1 states=$2 of=$3
    shift 3
    for process; do
        # If the parent is different, PROCESS has ended and another process has got its number.
        while look "$process" && [ "$parent" = "$of" ]; do
            case $state in [$states]) break ;; esac
            kill -s "$signal" "$process"
            sleep 0.002
        done
    done
}

# PostgreSQL has a process for each connection, and each process has its own group and session. A signal to a process
# group would therefore not reach all processes.
children() {
    for directory in /proc/[0-9]*; do
        look "${directory#/proc/}"
        [ "$parent" != "$server" ] || echo "${directory#/proc/}"
    done
}

pause() {
    # The server must stop first, because a stopped server starts no more children.
    tell STOP TtZX $$ "$server"
    tell STOP TtZX "$server" $(children)
}

end() {
    pause
    # The children must end before the server, because a remaining child would keep the data directory locked.
    tell KILL ZX "$server" $(children)
    tell KILL ZX $$ "$server"
    wait
    # Removes the shared memory segment of a killed PostgreSQL, because a system has only few segments.
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
