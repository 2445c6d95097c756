// Runs a reference flow file in htsim: flows FILE.flows K
// The last line of output is one JSON object. README.md in this directory describes how to get htsim, the build, and the counts.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "eventlist.h"
#include "pipe.h"
#include "queue.h"
#include "route.h"
#include "tcp.h"

namespace {

const int PACKET = 1500;
const linkspeed_bps SPEED = 10000000000;
const simtime_picosec DELAY = 1000000;  // 1000 ns
// Includes the packet being sent, which htsim's queue also counts.
const int SWITCH_PACKETS = 101, HOST_PACKETS = 1001;
const int WINDOW_CAP = 256;
const simtime_picosec MIN_RTO = timeFromMs(10), HTSIM_MIN_RTO = timeFromMs(250);  // the latter is written into TcpSrc::receivePacket
const simtime_picosec TIMERS_EVERY = timeFromMs(1);  // how often htsim looks for timers that have expired
const double LOST_SYN_US = 900e3;                    // flows that lost a SYN take this long at least

uint64_t hops = 0;
size_t unfinished = 0;

// htsim's wire; each packet that leaves it has crossed a link.
struct Wire : Pipe {
    explicit Wire(EventList& events) : Pipe(DELAY, events) {}
    void doNextEvent() override {
        ++hops;
        Pipe::doNextEvent();
    }
};

// htsim's sender, except for the minimum timeout.
struct Sender : TcpSrc {
    simtime_picosec began;

    Sender(EventList& events, uint64_t packets, simtime_picosec start) : TcpSrc(nullptr, nullptr, events), began(start) {
        _maxcwnd = WINDOW_CAP * _mss;
        _ssthresh = 0xffffffff;
        // TcpSrc sends one more packet than fit in this, and set_flowsize would add another.
        _flow_size = (packets - 1) * _mss;
    }
    void receivePacket(Packet& ack) override {
        TcpSrc::receivePacket(ack);
        if (_rto != HTSIM_MIN_RTO) return;
        simtime_picosec now = eventlist().now();
        _rto = std::max(_rtt + 4 * _mdev, MIN_RTO);
        if (_RFC2988_RTO_timeout == now + HTSIM_MIN_RTO) _RFC2988_RTO_timeout = now + _rto;
    }
};

// htsim's receiver, which records when it has all packets.
struct Receiver : TcpSink {
    uint64_t last_byte;  // the SYN is number 1
    simtime_picosec done = 0;

    explicit Receiver(uint64_t packets) : last_byte(packets * PACKET + 1) {}
    void receivePacket(Packet& packet) override {
        TcpSink::receivePacket(packet);
        if (done == 0 && _cumulative_ack >= last_byte) {
            done = EventList::now();
            --unfinished;
        }
    }
};

// One direction of a cable: the port's queue, then the wire.
struct Link {
    std::unique_ptr<Queue> queue;
    std::unique_ptr<Wire> wire;

    Link(EventList& events, int packets)
        : queue(new Queue(SPEED, packets * PACKET, events, nullptr)), wire(new Wire(events)) {}
};

class FatTree {
    int half, per_pod;
    std::vector<Link> from_host, to_host, edge_up, edge_down, aggr_up, aggr_down;

  public:
    FatTree(EventList& events, int k) : half(k / 2), per_pod(half * half) {
        // As many links between each two layers as hosts.
        for (int i = 0; i < k * per_pod; ++i) {
            from_host.emplace_back(events, HOST_PACKETS);
            for (auto* layer : {&to_host, &edge_up, &edge_down, &aggr_up, &aggr_down}) layer->emplace_back(events, SWITCH_PACKETS);
        }
    }
    size_t hosts() const { return from_host.size(); }
    uint64_t drops() const {
        uint64_t sum = 0;
        for (auto* layer : {&from_host, &to_host, &edge_up, &edge_down, &aggr_up, &aggr_down})
            for (auto& link : *layer) sum += link.queue->num_drops();
        return sum;
    }
    // From host to host by path p, no higher in the tree than necessary.
    Route* route(int from, int to, int p, PacketSink& end) {
        auto* route = new Route;
        auto add = [&](Link& link) {
            route->push_back(link.queue.get());
            route->push_back(link.wire.get());
        };
        int aggr = p / half;
        int edge_from = from / half, edge_to = to / half;          // of the whole tree
        int pod_from = from / per_pod, pod_to = to / per_pod;
        add(from_host[from]);
        if (edge_from != edge_to) {
            add(edge_up[edge_from * half + aggr]);
            if (pod_from != pod_to) {
                add(aggr_up[pod_from * per_pod + p]);
                add(aggr_down[pod_to * per_pod + p]);
            }
            add(edge_down[edge_to * half + aggr]);
        }
        add(to_host[to]);
        route->push_back(&end);
        return route;
    }
};

double quantile(const std::vector<double>& sorted, double q) {
    if (sorted.empty()) return 0;
    return sorted[std::max(0, int(std::ceil(q * sorted.size())) - 1)];
}

double wall() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double processor() {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

// Not the value of getrusage, which begins with the size of the parent process.
long peak_bytes() {
    std::ifstream status("/proc/self/status");
    std::string line;
    while (std::getline(status, line))
        if (line.rfind("VmHWM:", 0) == 0) return std::atol(line.c_str() + 6) * 1024;
    return 0;
}

int fail(const std::string& text) {
    std::cerr << "flows: " << text << std::endl;
    return 2;
}

}  // namespace

int main(int count, char** words) {
    double setup_began = wall();
    if (count != 3) return fail("usage: flows FILE.flows K");
    int k = std::atoi(words[2]);
    if (k < 2 || k % 2 != 0) return fail(std::string("no fat tree has k ") + words[2]);
    std::ifstream file(words[1]);
    if (!file) return fail(std::string("no file ") + words[1]);
    // htsim prints a line for every flow that ends and every timeout.
    std::cout.rdbuf(nullptr);

    Packet::set_packet_size(PACKET);
    EventList& events = EventList::getTheEventList();
    FatTree tree(events, k);
    TcpRtxTimerScanner timers(TIMERS_EVERY, events);
    std::vector<std::unique_ptr<Sender>> senders;
    std::vector<std::unique_ptr<Receiver>> receivers;
    std::string line;
    while (std::getline(file, line)) {
        uint64_t id, from, to, packets, start_ns;
        int fpath, rpath;
        if (!(std::istringstream(line) >> id >> from >> to >> packets >> start_ns >> fpath >> rpath)) continue;
        if (from >= tree.hosts() || to >= tree.hosts() || packets == 0) return fail("what flow is this: " + line);
        senders.emplace_back(new Sender(events, packets, start_ns * 1000));
        receivers.emplace_back(new Receiver(packets));
        Sender& sender = *senders.back();
        Receiver& receiver = *receivers.back();
        sender.connect(*tree.route(from, to, fpath, receiver), *tree.route(to, from, rpath, sender), receiver, start_ns * 1000);
        timers.registerTcp(sender);
    }
    unfinished = senders.size();

    double wall_began = wall(), processor_began = processor();
    while (unfinished > 0 && EventList::doNextEvent()) {
    }
    double wall_s = wall() - wall_began, processor_s = processor() - processor_began;

    // As in the tables of the flow files' README, flows that lost a SYN, which take seconds, are left out.
    std::vector<double> fct;
    for (size_t i = 0; i < senders.size(); ++i) {
        double us = timeAsUs(receivers[i]->done - senders[i]->began);
        if (receivers[i]->done != 0 && us < LOST_SYN_US) fct.push_back(us);
    }
    std::sort(fct.begin(), fct.end());
    double sum = 0;
    for (double us : fct) sum += us;
    std::printf(
        "{\"flows\": %zu, \"done\": %zu, \"lost_syn\": %zu, \"mean_us\": %.3f, \"p50_us\": %.3f, \"p90_us\": %.3f, \"p99_us\": %.3f, "
        "\"packet_hops\": %llu, \"drops\": %llu, \"sim_s\": %.9f, \"wall_s\": %.6f, \"cpu_s\": %.6f, \"setup_s\": %.6f, "
        "\"peak_rss_bytes\": %ld}\n",
        senders.size(), senders.size() - unfinished, senders.size() - unfinished - fct.size(), sum / std::max<size_t>(fct.size(), 1),
        quantile(fct, 0.5), quantile(fct, 0.9), quantile(fct, 0.99), (unsigned long long)hops, (unsigned long long)tree.drops(),
        timeAsSec(EventList::now()), wall_s, processor_s, wall_began - setup_began, peak_bytes());
    return 0;
}
