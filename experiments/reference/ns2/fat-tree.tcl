# Runs a reference flow file in ns-2.35: ns fat-tree.tcl FILE.flows K [key=value...]
# The last line of output is one JSON object. README.md in this directory defines the counts and times.
#   tcp=Newreno|Sack1
#   scheduler=Calendar|Heap|List|Splay   ns-2's event list
#   classifier=Addr|Hash/Dest            how a node looks up a destination: an array, or ns-2's default
#   tick=SECONDS                         grain of TCP's clock
#   limit=PACKETS                        of a switch's queue, which holds one packet less in addition to the one being sent
#   count=agents|queues                  queues: a monitor at every queue, slow, to check the count of hops

# Exit 3: the file needs something that this script cannot do.
proc refuse {why} {
    puts stderr $why
    exit 3
}
if {$argc < 2} {
    puts stderr "usage: ns fat-tree.tcl FILE.flows K \[tcp|scheduler|classifier|tick|limit|count=VALUE...\]"
    exit 2
}
set began [clock microseconds]
lassign $argv file k
array set opt {tcp Newreno scheduler Calendar classifier Addr tick 1e-6 limit 101 count agents}
foreach a [lrange $argv 2 end] {
    lassign [split $a =] key value
    if {![info exists opt($key)]} { error "no such option: $key" }
    set opt($key) $value
}
array set sink_of {Newreno TCPSink Sack1 TCPSink/Sack1}
set half [expr {$k / 2}]
set paths [expr {$half * $half}]
set hosts [expr {$k * $paths}]
# Every flow crosses a core switch, so every packet crosses this many links.
set links 6

# Unused headers would only make every packet larger.
remove-all-packet-headers
add-packet-header IP TCP Flags
set ns [new Simulator]
$ns use-scheduler $opt(scheduler)

# All routes are set below. No route is computed.
RouteLogic instproc configure {} { return }
if {$opt(classifier) eq "Addr"} {
    RtModule/Base instproc register node {
        $self next $node
        set c [new Classifier/Addr]
        $c set mask_ [AddrParams NodeMask 1]
        $c set shift_ [AddrParams NodeShift 1]
        $self set classifier_ $c
        $node install-entry $self $c
    }
}

# Senders have port 0 and sinks port 1, by which drops at the LEVEL-th link of a path are counted: ACKs in `dropped(LEVEL,0)`, data in
# `dropped(LEVEL,1)`. Without drops this costs nothing.
for {set level 0} {$level < $links} {incr level} {
    set drops_at($level) [new Classifier/Port]
    foreach port {0 1} {
        set dropped($level,$port) [new QueueMonitor]
        set snoop [new SnoopQueue/Drop]
        $snoop set-monitor $dropped($level,$port)
        $snoop target [$ns set nullAgent_]
        $drops_at($level) install $port $snoop
    }
}

# A link in one direction.
set queues {}
proc wire {from to level limit} {
    global ns drops_at queues opt
    $ns simplex-link $from $to 10Gb 1us DropTail
    set link [$ns link $from $to]
    [$link queue] set limit_ $limit
    [$link queue] drop-target $drops_at($level)
    if {$opt(count) eq "queues"} { lappend queues [$ns monitor-queue $from $to ""] }
}
# A cable: `up` and `down` are its levels on the path to a core switch and back.
proc cable {low high up down limit} {
    global opt
    wire $low $high $up $limit
    wire $high $low $down $opt(limit)
}

for {set h 0} {$h < $hosts} {incr h} { set host($h) [$ns node] }
for {set c 0} {$c < $paths} {incr c} { set core($c) [$ns node] }
for {set pod 0} {$pod < $k} {incr pod} {
    for {set i 0} {$i < $half} {incr i} {
        set edge($pod,$i) [$ns node]
        set aggr($pod,$i) [$ns node]
    }
    for {set i 0} {$i < $half} {incr i} {
        for {set j 0} {$j < $half} {incr j} {
            cable $host([expr {$pod * $paths + $i * $half + $j}]) $edge($pod,$i) 0 5 1001
            cable $edge($pod,$i) $aggr($pod,$j) 1 4 $opt(limit)
            cable $aggr($pod,$i) $core([expr {$i * $half + $j}]) 2 3 $opt(limit)
        }
    }
}

# Lets packets from `src` to host `dst` take path `p`. A node knows only the destination, so two paths that need different next hops
# from one node to one host cannot both be set.
proc pin {src dst p} {
    global ns k half paths host edge aggr core way
    set from [expr {$src / $paths}]
    set to [expr {$dst / $paths}]
    if {$from == $to} { refuse "$src to $dst: a path within a pod" }
    set j [expr {$p / $half}]
    set hops [list $host($src) $edge($from,[expr {$src % $paths / $half}]) $aggr($from,$j) $core($p) \
        $aggr($to,$j) $edge($to,[expr {$dst % $paths / $half}]) $host($dst)]
    set address [$host($dst) node-addr]
    foreach node [lrange $hops 0 end-1] next [lrange $hops 1 end] {
        if {![info exists way($node,$dst)]} {
            set way($node,$dst) $next
            [$node entry] install $address [[$ns link $node $next] head]
        } elseif {$way($node,$dst) ne $next} {
            refuse "packets to host $dst part at a node: routes by destination cannot do this file"
        }
    }
}

Agent/TCP set window_ 256
Agent/TCP set windowInit_ 10
Agent/TCP set tcpTick_ $opt(tick)
Agent/TCP set minrto_ 0.01
Agent/TCP set rtxcur_init_ 3.0
# With the 40 bytes of headers that ns-2 adds: 1500.
Agent/TCP set packetSize_ 1460
Agent/TCPSink set packetSize_ 40

# Processor time of this process, seconds.
proc processor_time {} {
    set f [open /proc/self/schedstat]
    set t [lindex [read $f] 0]
    close $f
    expr {$t * 1e-9}
}
# The first event and the last flow's end; the time between them is measured.
proc start_clock {} {
    global wall cpu
    set cpu [processor_time]
    set wall [clock microseconds]
}
proc finished {start} {
    global ns fcts senders sim_s wall cpu wall_s cpu_s
    lappend fcts [expr {([$ns now] - $start) * 1e6}]
    if {[llength $fcts] < [llength $senders]} return
    set wall_s [expr {([clock microseconds] - $wall) * 1e-6}]
    set cpu_s [expr {[processor_time] - $cpu}]
    set sim_s [$ns now]
    # Packets in flight still arrive, so that the counts agree.
    $ns after 0.002 "$ns halt"
}
$ns at 0 start_clock
set fcts {}
set senders {}
set in [open $file]
foreach line [split [read $in] \n] {
    if {[string trim $line] eq ""} continue
    lassign $line id src dst pkts start_ns fpath rpath
    set start [expr {$start_ns * 1e-9}]
    pin $src $dst $fpath
    pin $dst $src $rpath
    set tcp [new Agent/TCP/$opt(tcp)]
    set sink [new Agent/$sink_of($opt(tcp))]
    if {[info exists sends($src)] || [info exists receives($dst)]} { refuse "two flows from $src or to $dst" }
    set sends($src) [set receives($dst) $id]
    $host($src) attach $tcp 0
    $host($dst) attach $sink 1
    $ns connect $tcp $sink
    $tcp proc done {} "finished $start"
    $ns at $start "$tcp advanceby $pkts"
    lappend senders $tcp
}
close $in

$ns run

# A packet that arrives has crossed all links. A packet dropped at a level has crossed those below it, and the ACK of
# dropped data was never sent.
set sent 0
set acked 0
foreach tcp $senders {
    incr sent [$tcp set ndatapack_]
    incr acked [$tcp set nackpack_]
}
set hops [expr {2 * $links * $sent}]
set drops 0
for {set level 0} {$level < $links} {incr level} {
    set data [$dropped($level,1) set pdrops_]
    set acks [$dropped($level,0) set pdrops_]
    incr drops [expr {$data + $acks}]
    incr hops [expr {-(2 * $links - $level) * $data - ($links - $level) * $acks}]
}
if {$sent - $drops != $acked} { error "$sent sent, $drops dropped, but $acked ACKs came" }
if {$opt(count) eq "queues"} {
    set left 0
    foreach q $queues { incr left [$q set pdepartures_] }
    if {$left != $hops} { error "queues counted $left hops, agents $hops" }
}

# As in the tables of the flow files' README, flows that lost a SYN, which take seconds, are left out.
set fcts [lsort -real $fcts]
set done [llength $fcts]
set timely {}
foreach t $fcts { if {$t < 900e3} { lappend timely $t } }
proc quantile {q} {
    global timely
    lindex $timely [expr {max(0, int(ceil($q * [llength $timely])) - 1)}]
}
set status [open /proc/self/status]
regexp {VmHWM:\s+(\d+)} [read $status] - peak_kib
close $status
set result {}
foreach {name value} [list \
    flows [llength $senders] done $done lost_syn [expr {$done - [llength $timely]}] \
    mean_us [format %.3f [expr {[tcl::mathop::+ {*}$timely] / max([llength $timely], 1)}]] \
    p50_us [format %.3f [quantile 0.5]] p90_us [format %.3f [quantile 0.9]] p99_us [format %.3f [quantile 0.99]] \
    packet_hops $hops drops $drops sim_s [format %.9f $sim_s] wall_s [format %.6f $wall_s] cpu_s [format %.6f $cpu_s] \
    setup_s [format %.6f [expr {($wall - $began) * 1e-6}]] peak_rss_bytes [expr {$peak_kib * 1024}]] {
    lappend result "\"$name\": $value"
}
puts "{[join $result {, }]}"
exit 0
