# SPDX-License-Identifier: Apache-2.0
# Hosts out of network namespaces, for tests and benchmarks of ranks on several: each with a name, an address and a device of its own. As
# root, under Open MPI (how others start ranks in a namespace is not known). Source it with $work a folder, and call hosts_end at the end.
# shellcheck shell=sh disable=SC2154
hosts_prefix=qs$$ hosts_made=0

# hosts_missing: what this machine lacks for them, or nothing.
hosts_missing() {
    [ "$(id -u)" = 0 ] || { echo "network namespaces need root"; return; }
    for tool in ip unshare taskset; do command -v $tool > /dev/null || { echo "there is no $tool"; return; }; done
    mpirun --version 2> /dev/null | grep -q 'Open MPI' || { echo "how ranks are started in namespaces is known for Open MPI only"; return; }
    { ip netns add "$hosts_prefix-0" && ip netns exec "$hosts_prefix-0" true; } > "$work/err" 2>&1 || echo "ip netns: $(cat "$work/err")"
    ip netns del "$hosts_prefix-0" 2> /dev/null || true
}

# host_device HOST: the name of its device, and of its namespace.
host_device() { echo "$hosts_prefix-$1"; }

# hosts_make N
hosts_make() {
    while [ $hosts_made -lt "$1" ]; do
        ip netns add "$hosts_prefix-$((hosts_made + 1))" || return
        hosts_made=$((hosts_made + 1))
    done
    # agent ADDRESS COMMAND...: in that host's namespace, under its name; with $hosts_bound on a core of its own, as far as there are some.
    cat > "$work/agent" << END
#!/bin/sh
host=\${1##*.}
shift
bound=
[ -z "${hosts_bound:-}" ] || bound="taskset -cp \$(((host - 1) % $(getconf _NPROCESSORS_ONLN))) \\$\\$ > /dev/null;"
exec ip netns exec $hosts_prefix-\$host unshare -u sh -c "hostname host-\$host; \$bound \$*"
END
    chmod +x "$work/agent"
}

# host_join HOST MTU: gives it the device of its name, which lies outside so far, an address and that longest packet.
host_join() {
    device=$(host_device "$1")
    ip link set "$device" netns "$device" mtu "$2" && ip -n "$device" addr add "10.99.77.$1/24" dev "$device" &&
        ip -n "$device" link set "$device" up && ip -n "$device" link set lo up || return
    # Connections that were idle for a while start at the pace that they had.
    ip netns exec "$device" sh -c 'echo 0 > /proc/sys/net/ipv4/tcp_slow_start_after_idle' 2> /dev/null || true
}

# on_hosts N SECONDS COMMAND...: one rank on each of the first N hosts; the launcher is on the first.
on_hosts() {
    hosts=$1 seconds=$2
    shift 2
    seq -f '10.99.77.%g slots=1' "$hosts" > "$work/hostfile"
    "$work/agent" 10.99.77.1 exec timeout "$seconds" mpirun -n "$hosts" --hostfile "$work/hostfile" --bind-to none \
        --mca plm_rsh_agent "$work/agent" --mca oob_tcp_if_include 10.99.77.0/24 --mca btl_tcp_if_include 10.99.77.0/24 \
        --mca btl tcp,self --mca pml ob1 "$@"
}

hosts_end() {
    while [ $hosts_made -gt 0 ]; do
        ip netns del "$hosts_prefix-$hosts_made" 2> /dev/null || true
        hosts_made=$((hosts_made - 1))
    done
}
