#!/bin/sh
# Measures steps of ranks over a slow network: each rank is in a network namespace of its own, whose
# link has a rate and maybe a delay (tc; where the kernel has no netem, bench/delay.c, which takes
# processor time of its own). Prints ms a step.
#
#   bench/netns.sh [-n RANKS] [-b BUILD] [-m openmpi|mpich] [NETWORK [RATE[/DELAY] ...]]
#
# NETWORK: mlp, gpt or resnet20 of bench/ranks; RATE and DELAY in tc's words: 1gbit, 10gbit/50us;
# `open`: the link as it is. Default: mlp open 10gbit 2500mbit 1gbit. Needs root, iproute2 and the
# launcher of that MPI. Each step of the table ends after three minutes. Nothing leaves this
# machine: the namespaces have no way out, and they are removed at the end.
set -eu
ranks=2 build=build/release mpi=openmpi
while getopts n:b:m: option; do
    case $option in
    n) ranks=$OPTARG ;;
    b) build=$OPTARG ;;
    m) mpi=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
network=${1:-mlp}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- open 10gbit 2500mbit 1gbit
bench=$(realpath "$build")/bench/ranks
delay_program=$(realpath "$build")/bench/delay
export DETENT_EXCHANGE=messages # not by the memory of the machine
for need in ip tc "mpirun.$mpi" "$bench" "$delay_program"; do
    command -v "$need" >/dev/null || { echo "$need is missing" >&2; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo "network namespaces want root" >&2; exit 1; }

work=$(mktemp -d)
name=detent-$$ device=eth0 delayer=
end_delay() {
    if [ -n "$delayer" ]; then
        kill "$delayer" 2>/dev/null || true
        wait "$delayer" 2>/dev/null || true # its devices are gone
    fi
    delayer= device=eth0
}
remove() {
    end_delay
    for k in $(seq 0 "$ranks"); do ip netns del "$name-$k" 2>/dev/null || true; done
    rm -rf "$work"
}
trap remove EXIT
trap 'exit 1' INT TERM

# ---- namespaces: 1 to RANKS, joined by a bridge in namespace 0 ----------------------------------
ip netns add "$name-0"
ip -n "$name-0" link add bridge type bridge
ip -n "$name-0" link set bridge up
for k in $(seq 1 "$ranks"); do
    ip netns add "$name-$k"
    ip -n "$name-$k" link set lo up
    ip -n "$name-$k" link add eth0 type veth peer name "to$k" netns "$name-0"
    ip -n "$name-$k" address add "10.77.0.$k/24" dev eth0
    ip -n "$name-$k" link set eth0 up
    ip -n "$name-0" link set "to$k" master bridge up
done

# The launcher calls this in place of ssh: agent [-x ...] HOST WORD...
cat >"$work/agent" <<EOF
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
k=\${1##*.}
shift
export DETENT_EXCHANGE=messages
exec ip netns exec "$name-\$k" unshare --uts sh -c "hostname rank\$k; \$*"
EOF
chmod +x "$work/agent"

# ---- links -------------------------------------------------------------------------------------
has_netem() {
    tc -n "$name-1" qdisc add dev lo root netem delay 1ms 2>/dev/null &&
        tc -n "$name-1" qdisc del dev lo root
}

in_unit() { # NUMBER-WITH-UNIT UNIT=FACTOR...: the number in the unit of the factors
    for unit in "$@"; do
        [ "$unit" != "$1" ] && [ "${1%[0-9]"${unit%=*}"}" != "$1" ] || continue
        echo "${1%"${unit%=*}"} ${unit#*=}" | awk '{ print $1 * $2 }'
        return
    done
    echo "'$1' is neither a rate in gbit, mbit or kbit nor a delay in us or ms" >&2
    return 1
}

# The addresses move to devices of bench/delay.c.
delay_by_program() { # RATE DELAY
    mbit=$(in_unit "$1" gbit=1000 mbit=1 kbit=0.001) && us=$(in_unit "$2" us=1 ms=1000) || return 1
    mkfifo "$work/fifo"
    "$delay_program" "$name" "$ranks" "$us" "$mbit" >"$work/fifo" &
    delayer=$! device=tun
    read -r _ <"$work/fifo" || return 1
    rm "$work/fifo"
}

use_device() {
    for k in $(seq 1 "$ranks"); do
        ip -n "$name-$k" address flush dev eth0
        ip -n "$name-$k" address add "10.77.0.$k/24" dev $device
        [ $device = eth0 ] || ip -n "$name-$k" link set tun mtu 65000 up
    done
}

# Both ends of a link: what a rank sends, and what is sent to it.
shape() { # RATE DELAY
    end_delay
    if [ -n "$2" ] && ! has_netem; then
        delay_by_program "$1" "$2" && use_device
        return
    fi
    use_device
    for k in $(seq 1 "$ranks"); do
        for end in "$name-$k eth0" "$name-0 to$k"; do
            set -- "$1" "$2" "${end% *}" "${end#* }"
            tc -n "$3" qdisc del dev "$4" root 2>/dev/null || true
            [ "$1" != open ] || continue
            if [ -n "$2" ]; then
                tc -n "$3" qdisc add dev "$4" root netem delay "$2" rate "$1" limit 100000
            else
                tc -n "$3" qdisc add dev "$4" root tbf rate "$1" burst 64kb latency 50ms
            fi
        done
    done
}

hosts=$(seq -f '10.77.0.%g' -s , 1 "$ranks")
launch() { # WORD...
    if [ "$mpi" = openmpi ]; then
        timeout -k 5 180 ip netns exec "$name-1" mpirun.openmpi --allow-run-as-root --bind-to none \
            --mca plm_rsh_agent "$work/agent" --mca btl self,tcp --mca btl_tcp_if_include $device \
            --mca oob_tcp_if_include $device --map-by node --host "$hosts" "$@"
    else
        UCX_TLS=tcp,self FI_PROVIDER=tcp MPIR_CVAR_NOLOCAL=1 \
            timeout -k 5 180 ip netns exec "$name-1" mpirun.mpich -launcher ssh -launcher-exec \
            "$work/agent" -iface $device -hosts "$hosts" -n "$ranks" "$@"
    fi
}

printf '%-20s %10s %10s %10s %8s %9s\n' link ms 'CPU ms' 'comm. ms' hidden 'sent MB'
for link in "$@"; do
    rate=${link%%/*} delay=${link#"$rate"}
    if ! shape "$rate" "${delay#/}" 2>"$work/why"; then
        printf '%-20s %s\n' "$link" "$(head -n 1 "$work/why")"
        continue
    fi
    rm -rf "$work/run"
    if ! launch "$bench" step "$network" "run.dir=$work/run" run.threads=1 run.report=false \
        cluster.check_steps=0 >"$work/out" 2>"$work/why" </dev/null; then
        printf '%-20s %s\n' "$link" "failed: $(tail -n 1 "$work/why")"
        continue
    fi
    awk -v link="$link" 'NF == 5 { printf "%-20s %10.1f %10.1f %10.1f %6.0f %% %9.1f\n", link, $1,
        $2, $3, ($3 > $4 ? 100 * (1 - $4 / $3) : 0), $5 / 1e6 }' "$work/out"
done
