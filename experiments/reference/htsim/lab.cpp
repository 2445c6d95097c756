// TCP and MPTCP of htsim in two networks, for comparison with Spindle's experiments of the same name.
//   lab fct RATE_MBPS RTT_US QUEUE_PKTS N PKTS            N TCP flows that start 100 us apart, over one bottleneck; prints each flow's time
//   lab share RATE_MBPS RTT_US QUEUE_PKTS N M SUB SECONDS SEED [RTT2_US]
//                                                        N TCP flows and M MPTCP flows of SUB subflows (M = 0: none), from 1/6 of SECONDS on;
//                                                        the M flows, or the second half of the N if M = 0, have RTT2_US
//   lab perm RATE_MBPS LINK_US QUEUE_PKTS SUB SECONDS SEED  permutation in a fat tree of k = 4; SUB = 1 is TCP
//   lab loss RATE_MBPS RTT1_US LOSS1 RTT2_US LOSS2 WHICH SECONDS SEED  random losses; WHICH: 1, 2 TCP on that path; 3 MPTCP on both
// SSTHRESH=N in the environment is the first ssthresh in packets; UNCOUPLED=1 is MPTCP without LIA, WHOLE=1 and LIMITED=1 are below.
// Build: make -C csg-htsim/sim libhtsim.a && g++ -std=c++11 -O2 -isystem csg-htsim/sim lab.cpp csg-htsim/sim/libhtsim.a -o lab
// No part of htsim is copied.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "eventlist.h"
#include "mtcp.h"
#include "pipe.h"
#include "queue.h"
#include "route.h"
#include "tcp.h"

const int PACKET = 1500;

// SYN-ACK widens htsim's window by one packet, so 9 makes an initial window of 10.
struct Sender : TcpSrc {
    FILE* trace = nullptr;
    uint64_t total = 0;
    Sender(EventList& e) : TcpSrc(nullptr, nullptr, e) {
        _cwnd = 9 * _mss;
        if (getenv("SSTHRESH")) _ssthresh = atoi(getenv("SSTHRESH")) * _mss;
        else _ssthresh = 0x7fffffff;
    }
    // WHOLE=1: cwnd grows by whole segments, and a loss halves the flight (RFC 5681, equation 4) and ends a partial growth, as in Spindle.
    bool whole = getenv("WHOLE");
    bool limited_transmit = getenv("LIMITED");
    uint32_t credit = 0;
    void inflate_window() override {
        if (!whole || _mSrc) return TcpSrc::inflate_window();
        if (int64_t(_last_acked + _cwnd) - int64_t(_highest_sent) < _mss) return;
        if (_cwnd < _ssthresh) {
            _cwnd += std::min<uint32_t>(_ssthresh - _cwnd, _mss);
        } else if ((credit += _mss) >= _cwnd) {
            credit -= _cwnd;
            _cwnd += _mss;
        }
    }
    void deflate_window() override {
        if (!whole || _mSrc) return TcpSrc::deflate_window();
        _ssthresh = std::max<uint32_t>(std::min<uint64_t>(_highest_sent - _last_acked, _cwnd) / 2, 2 * _mss);
        credit = 0;
    }
    void receivePacket(Packet& p) override {
        uint32_t before = _drops;
        bool was = _in_fast_recovery;
        // LIMITED=1: Limited Transmit (RFC 3042), for TCP only.
        TcpAck& ack = (TcpAck&)p;
        bool limited = limited_transmit && !_mSrc && !was && _established && ack.ackno() == _last_acked && _dupacks < 2;
        uint32_t extra = limited ? (_dupacks + 1) * _mss : 0;
        _cwnd += extra;
        TcpSrc::receivePacket(p);
        _cwnd -= extra;
        if (trace && (before != _drops || was != _in_fast_recovery))
            fprintf(trace, "%.6f %p cwnd %.2f ssthresh %.2f fast %d drops %u acked %llu\n", timeAsSec(EventList::now()), (void*)this,
                    _cwnd / double(_mss), _ssthresh / double(_mss), _in_fast_recovery, _drops, (unsigned long long)_last_acked / _mss);
    }
};

struct Receiver : TcpSink {
    uint64_t last = ~0ull;
    simtime_picosec done = 0;
    void receivePacket(Packet& p) override {
        TcpSink::receivePacket(p);
        if (!done && _cumulative_ack >= last) done = EventList::now();
    }
};

struct Link {
    Queue* queue;
    Pipe* pipe;
    Link(EventList& e, double mbps, double us, int packets)
        : queue(new Queue(speedFromMbps(mbps), packets * PACKET, e, nullptr)), pipe(new Pipe(timeFromUs(us), e)) {}
};

// An additional delay, uniform up to 240 us, that keeps the order, against phase effects; Spindle's `jitter` of links.
struct Jitter : PacketSink, EventSource {
    std::mt19937& chance;
    simtime_picosec last = 0;
    std::vector<std::pair<simtime_picosec, Packet*>> waiting;
    size_t head = 0;
    std::string name = "jitter";
    Jitter(EventList& e, std::mt19937& c) : EventSource(e, "jitter"), chance(c) {}
    const string& nodename() override { return name; }
    void receivePacket(Packet& p) override {
        last = std::max(last, EventList::now() + simtime_picosec(chance() % 240000) * 1000);
        if (head == waiting.size()) {
            waiting.clear(), head = 0;
            eventlist().sourceIsPending(*this, last);
        }
        waiting.push_back({last, &p});
    }
    void doNextEvent() override {
        Packet* p = waiting[head++].second;
        if (head < waiting.size()) eventlist().sourceIsPending(*this, waiting[head].first);
        p->sendOn();
    }
};

void over(Route* r, Link& l) {
    r->push_back(l.queue);
    r->push_back(l.pipe);
}

// Loses each packet with a probability.
struct Loss : PacketSink {
    std::mt19937& chance;
    double p;
    int lost = 0;
    std::string name = "loss";
    Loss(std::mt19937& c, double rate) : chance(c), p(rate) {}
    const string& nodename() override { return name; }
    void receivePacket(Packet& packet) override {
        if (std::uniform_real_distribution<>()(chance) < p) ++lost, packet.free();
        else packet.sendOn();
    }
};

struct Flow {
    std::vector<Sender*> senders;
    std::vector<Receiver*> receivers;
    uint64_t at_warm_up = 0;
    uint64_t acked() const {
        uint64_t sum = 0;
        for (auto* r : receivers) sum += r->_cumulative_ack + r->_received.size() * PACKET;  // in order or not
        return sum;
    }
};

EventList& events = EventList::getTheEventList();
TcpRtxTimerScanner* timers;

// One subflow for each pair of routes (without their ends).
Flow* flow(std::vector<Route*> out, std::vector<Route*> back, simtime_picosec start, bool mptcp, uint64_t packets = 0) {
    auto* f = new Flow;
    MultipathTcpSrc* source = mptcp ? new MultipathTcpSrc(getenv("UNCOUPLED") ? UNCOUPLED : COUPLED_INC, events, nullptr) : nullptr;
    for (size_t i = 0; i < out.size(); ++i) {
        auto* s = new Sender(events);
        auto* r = new Receiver;
        if (source) source->addSubflow(s);
        if (packets) {
            s->_flow_size = (packets - 1) * PACKET;
            r->last = packets * PACKET + 1;
        }
        out[i]->push_back(r);
        back[i]->push_back(s);
        s->connect(*out[i], *back[i], *r, start);
        timers->registerTcp(*s);
        f->senders.push_back(s);
        f->receivers.push_back(r);
    }
    return f;
}

int main(int n, char** a) {
    std::cout.rdbuf(nullptr);
    Packet::set_packet_size(PACKET);
    timers = new TcpRtxTimerScanner(timeFromMs(1), events);
    std::string what = n > 1 ? a[1] : "";
    auto arg = [&](int i) { return i < n ? atof(a[i]) : 0.0; };
    double mbps = arg(2), us = arg(3);
    int packets = arg(4);
    std::vector<Flow*> flows;
    if (what == "fct") {
        // Spindle's dumbbell: three links each way, a sixth of the round trip each; hosts ten times as fast.
        int count = arg(5);
        Link core(events, mbps, us / 6, packets + 1), core_back(events, mbps, us / 6, packets + 1);
        for (int i = 0; i < count; ++i) {
            auto *out = new Route, *back = new Route;
            over(out, *new Link(events, mbps * 10, us / 6, 1001));
            over(out, core);
            over(out, *new Link(events, mbps * 10, us / 6, packets + 1));
            over(back, *new Link(events, mbps * 10, us / 6, 1001));
            over(back, core_back);
            over(back, *new Link(events, mbps * 10, us / 6, packets + 1));
            flows.push_back(flow({out}, {back}, timeFromUs(100.0 * i), false, arg(6)));
        }
        while (EventList::doNextEvent()) {
            bool all = true;
            for (auto* f : flows) all = all && f->receivers[0]->done;
            if (all) break;
        }
        for (size_t i = 0; i < flows.size(); ++i) printf("%.3f ", timeAsUs(flows[i]->receivers[0]->done) - 100.0 * i);
        printf("us, drops %d\n", (int)core.queue->num_drops());
        return 0;
    }
    if (what == "share") {
        int tcp = arg(5), mptcp = arg(6), sub = arg(7);
        double seconds = arg(8);
        std::mt19937 chance(int(arg(9)));
        double us2 = n > 10 ? arg(10) : us;
        srand(arg(9));
        Link core(events, mbps, us / 6, packets + 1), core_back(events, mbps, us / 6, packets + 1);
        FILE* trace = getenv("TRACE") ? stderr : nullptr;
        for (int i = 0; i < tcp + mptcp; ++i) {
            bool second = mptcp ? i >= tcp : i >= tcp / 2;
            std::vector<Route*> outs, backs;
            // The rest of the round trip, in the four links of hosts.
            double host_us = ((second ? us2 : us) - us / 3) / 4;
            Link *up = new Link(events, mbps * 10, host_us, 1001), *down = new Link(events, mbps * 10, host_us, packets + 1);
            Link *up_back = new Link(events, mbps * 10, host_us, 1001), *down_back = new Link(events, mbps * 10, host_us, packets + 1);
            auto &jitter = *new Jitter(events, chance), &jitter_back = *new Jitter(events, chance);
            for (int s = 0; s < (i >= tcp ? sub : 1); ++s) {
                auto *out = new Route, *back = new Route;
                over(out, *up), out->push_back(&jitter), over(out, core), over(out, *down);
                over(back, *up_back), back->push_back(&jitter_back), over(back, core_back), over(back, *down_back);
                outs.push_back(out), backs.push_back(back);
            }
            // Within 1 s; those that Spindle calls long, within 10 ms.
            flows.push_back(flow(outs, backs, timeFromUs(double(chance() % (second ? 10000 : 1000000))), i >= tcp));
            if (trace) for (auto* s : flows.back()->senders) s->trace = trace;
        }
        double from = seconds / 6;
        while (EventList::now() < timeFromSec(from)) EventList::doNextEvent();
        for (auto* f : flows) f->at_warm_up = f->acked();
        while (EventList::now() < timeFromSec(seconds)) EventList::doNextEvent();
        double first = 0, other = 0;
        printf("Mbps:");
        for (int i = 0; i < tcp + mptcp; ++i) {
            double rate = (flows[i]->acked() - flows[i]->at_warm_up) * 8.0 * 1460 / 1500 / (seconds - from) / 1e6;
            ((mptcp ? i >= tcp : i >= tcp / 2) ? other : first) += rate;
            printf(" %.2f", rate);
        }
        printf(" | recoveries");
        for (auto* f : flows) {
            int all = 0;
            for (auto* s : f->senders) all += s->_drops;
            printf(" %d", all);
        }
        printf(" | first %.2f others %.2f share of others %.3f drops %d\n", first, other, other / (first + other), (int)core.queue->num_drops());
        return 0;
    }
    if (what == "loss") {
        double rtt[] = {us, arg(5)}, loss[] = {arg(4), arg(6)}, seconds = arg(8), from = seconds / 6;
        int which = arg(7);
        std::mt19937 chance(int(arg(9)));
        srand(arg(9));
        std::vector<Route*> outs, backs;
        for (int i = 0; i < 2; ++i) {
            if (!(which >> i & 1)) continue;
            auto *out = new Route, *back = new Route;
            over(out, *new Link(events, mbps, rtt[i] / 2, 1001)), out->push_back(new Loss(chance, loss[i]));
            over(back, *new Link(events, mbps, rtt[i] / 2, 1001));
            outs.push_back(out), backs.push_back(back);
        }
        Flow* f = flow(outs, backs, 0, which == 3);
        while (EventList::now() < timeFromSec(from)) EventList::doNextEvent();
        std::vector<double> was;
        for (auto* r : f->receivers) was.push_back(r->_cumulative_ack);
        while (EventList::now() < timeFromSec(seconds)) EventList::doNextEvent();
        double sum = 0;
        for (size_t i = 0; i < was.size(); ++i) {
            double packets_s = (f->receivers[i]->_cumulative_ack - was[i]) / PACKET / (seconds - from);
            sum += packets_s;
            printf("%.1f ", packets_s);
        }
        printf("packets/s, sum %.1f\n", sum);
        return 0;
    }
    if (what == "perm") {
        int sub = arg(5);
        double seconds = arg(6);
        std::mt19937 chance(int(arg(7)));
        srand(arg(7));
        std::vector<Link> from_host, to_host, edge_up, edge_down, aggr_up, aggr_down;
        for (int i = 0; i < 16; ++i) {
            from_host.emplace_back(events, mbps, us, packets + 1);
            for (auto* l : {&to_host, &edge_up, &edge_down, &aggr_up, &aggr_down}) l->emplace_back(events, mbps, us, packets + 1);
        }
        auto route = [&](int from, int to) {
            int p = chance() % 4, aggr = p / 2;
            auto* r = new Route;
            over(r, from_host[from]);
            if (from / 2 != to / 2) {
                over(r, edge_up[from / 2 * 2 + aggr]);
                if (from / 4 != to / 4) {
                    over(r, aggr_up[from / 4 * 4 + p]);
                    over(r, aggr_down[to / 4 * 4 + p]);
                }
                over(r, edge_down[to / 2 * 2 + aggr]);
            }
            over(r, to_host[to]);
            return r;
        };
        std::vector<int> to(16);
        bool good;
        do {
            good = true;
            for (int i = 0; i < 16; ++i) to[i] = i;
            std::shuffle(to.begin(), to.end(), chance);
            for (int i = 0; i < 16; ++i) good = good && to[i] != i;
        } while (!good);
        for (int i = 0; i < 16; ++i) {
            std::vector<Route*> outs, backs;
            for (int s = 0; s < sub; ++s) outs.push_back(route(i, to[i])), backs.push_back(route(to[i], i));
            flows.push_back(flow(outs, backs, timeFromUs(double(chance() % 10000)), sub > 1));
        }
        // From the beginning, as Spindle's goodput of transfers.
        while (EventList::now() < timeFromSec(seconds)) EventList::doNextEvent();
        double sum = 0;
        std::vector<double> rates;
        for (auto* f : flows) rates.push_back(f->acked() * 8.0 * 1460 / 1500 / seconds / 1e6);
        std::sort(rates.begin(), rates.end());
        for (double r : rates) sum += r;
        int drops = 0, access = 0;
        for (auto* l : {&to_host}) for (auto& k : *l) access += k.queue->num_drops();
        for (auto* l : {&edge_up, &edge_down, &aggr_up, &aggr_down}) for (auto& k : *l) drops += k.queue->num_drops();
        printf("mean %.2f min %.2f median %.2f max %.2f Mbps, drops %d in the fabric, %d at receivers\n", sum / 16, rates[0], rates[8], rates[15], drops, access);
        return 0;
    }
    fprintf(stderr, "lab fct|share|perm ...\n");
    return 2;
}
