#!/bin/sh
# Records how the Linux kernel speaks MPTCP, for crates/spindle-wire/tests/kernel_handshake.rs.
#
# Two network namespaces with two links between them; an MPTCP client and server; a join, addresses
# announced and withdrawn, a priority change, data in both directions with one segment sent twice, DATA_FIN and
# fast close. Recorded once without and once with DSS checksums, and once over IPv6.
#
# usage: capture-kernel-handshake.sh [DIRECTORY]      (root; Linux 5.19 or newer; ip, dumpcap, python3)
#  The captures are classic pcap files, LINUX_SLL or LINUX_SLL2 framing.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-$here/crates/spindle-wire/tests/data}
mkdir -p "$out"
tmp=$(mktemp -d)
client=spw-client-$$
server=spw-server-$$
pids=

cleanup() {
    for pid in $pids; do kill "$pid" 2>/dev/null || :; done
    ip netns del "$client" 2>/dev/null || :
    ip netns del "$server" 2>/dev/null || :
    rm -rf "$tmp"
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM

in_client() { ip netns exec "$client" "$@"; }
in_server() { ip netns exec "$server" "$@"; }

cat >"$tmp/plain.py" <<'PY'
"""Turns checksum and segmentation offloads of an interface off, so that the captured packets are what
a wire would carry (linux/ethtool.h: SIOCETHTOOL and the ETHTOOL_S* commands)."""
import array, fcntl, socket, struct, sys
SIOCETHTOOL = 0x8946
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    for command in (0x17, 0x1F, 0x24, 0x2C):  # tx checksums, TSO, GSO, GRO
        data = array.array("B", struct.pack("II", command, 0))
        request = struct.pack("16sP", sys.argv[1].encode(), data.buffer_info()[0])
        fcntl.ioctl(s, SIOCETHTOOL, request)
PY

cat >"$tmp/talk.py" <<'PY'
"""An MPTCP client or server: talk.py server ADDR | client ADDR CONTROL-COMMAND..."""
import os, socket, struct, subprocess, sys, time
IPPROTO_MPTCP = 262
PORT = 8080

def sock(addr):
    family = socket.AF_INET6 if ":" in addr else socket.AF_INET
    return socket.socket(family, socket.SOCK_STREAM, IPPROTO_MPTCP)

def read(s, n):
    while n > 0:
        data = s.recv(n)
        if not data:
            raise SystemExit("the peer closed early")
        n -= len(data)

if sys.argv[1] == "server":
    # The wildcard address, because joins also arrive at the other address.
    listener = sock(sys.argv[2])
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("::" if ":" in sys.argv[2] else "", PORT))
    listener.listen()
    for _ in range(2):
        s, _ = listener.accept()
        try:
            read(s, 3001)
            for size in (1, 8000, 777):
                s.sendall(bytes(i % 251 for i in range(size)))
            while s.recv(4096):
                pass
        except ConnectionError:
            pass
        s.close()
else:
    for last in (False, True):
        s = sock(sys.argv[2])
        s.connect((sys.argv[2], PORT))
        s.sendall(bytes(i % 249 for i in range(1001)))
        time.sleep(0.5)
        s.sendall(b"x" * 2000)
        read(s, 8778)
        if last:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            for command in sys.argv[3:]:
                subprocess.run(command, shell=True, check=True)
                time.sleep(0.3)
        s.close()
        time.sleep(0.7)
PY

cat >"$tmp/twice.py" <<'PY'
"""Sends the first long packet that leaves an interface a second time, a little later: the receiver
answers with a SACK block (RFC 2883)."""
import socket, sys, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.bind((sys.argv[1], 3))
while True:
    frame, address = s.recvfrom(4096)
    if address[2] == socket.PACKET_OUTGOING and len(frame) > 900:
        time.sleep(0.1)
        s.send(frame)
        break
PY

# record NAME CHECKSUMS(0|1) FAMILY(4|6)
record() {
    name=$1 checksums=$2 family=$3
    ip netns add "$client"
    ip netns add "$server"
    for ns in "$client" "$server"; do
        ip netns exec "$ns" sysctl -qw net.mptcp.enabled=1 net.mptcp.checksum_enabled="$checksums" \
            net.ipv4.conf.all.rp_filter=0 net.ipv6.conf.default.accept_dad=0
        ip -n "$ns" link set lo up
        ip -n "$ns" mptcp limits set subflows 4 add_addr_accepted 4
    done
    for i in 1 2; do
        ip link add "v$i" netns "$client" type veth peer name "v$i" netns "$server"
        if [ "$family" = 4 ]; then a=10.1.$i.1 b=10.1.$i.2 bits=24; else a=fd00:$i::1 b=fd00:$i::2 bits=64; fi
        in_client python3 "$tmp/plain.py" "v$i"
        in_server python3 "$tmp/plain.py" "v$i"
        ip -n "$client" addr add "$a/$bits" dev "v$i" nodad 2>/dev/null ||
            ip -n "$client" addr add "$a/$bits" dev "v$i"
        ip -n "$server" addr add "$b/$bits" dev "v$i" nodad 2>/dev/null ||
            ip -n "$server" addr add "$b/$bits" dev "v$i"
        ip -n "$client" link set "v$i" up
        ip -n "$server" link set "v$i" up
    done
    if [ "$family" = 4 ]; then first=10.1.1.2 join=10.1.2.1 announce=10.1.2.2
    else first=fd00:1::2 join=fd00:2::1 announce=fd00:2::2; fi
    ip -n "$client" mptcp endpoint add "$join" id 5 dev v2 subflow
    ip -n "$server" mptcp endpoint add "$announce" id 6 dev v2 signal
    ip -n "$server" mptcp endpoint add "$first" id 7 dev v1 signal port 8081
    sleep 0.5
    in_client dumpcap -q -P -i any -f tcp -w "$tmp/$name.pcap" 2>"$tmp/dumpcap.log" &
    capture=$!
    pids="$pids $capture"
    sleep 1.5
    in_server python3 "$tmp/talk.py" server "$first" &
    listener=$!
    in_server python3 "$tmp/twice.py" v1 &
    pids="$pids $listener $!"
    sleep 0.5
    in_client python3 "$tmp/talk.py" client "$first" \
        "ip -n $client mptcp endpoint change id 5 backup" \
        "ip -n $server mptcp endpoint del id 6" \
        "ip -n $client mptcp endpoint del id 5"
    sleep 0.5
    kill "$capture"
    wait "$capture" || :
    wait "$listener" || :
    install -m 644 "$tmp/$name.pcap" "$out/$name.pcap"
    ip netns del "$client"
    ip netns del "$server"
    echo "$name: $(wc -c <"$out/$name.pcap") bytes"
}

record kernel-plain 0 4
record kernel-checksums 1 4
record kernel-ipv6 0 6
