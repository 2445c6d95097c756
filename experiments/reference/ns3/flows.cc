// Runs a reference flow file in ns-3: flows FILE.flows K [sack] [classic]
// The last line of output is one JSON object. README.md in this directory describes how to get ns-3, the build, and the counts.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

using namespace ns3;

namespace {

const uint32_t MSS = 1460;  // 1500 B with the headers of IP and TCP
const uint32_t WINDOW_CAP = 256;
const uint32_t SWITCH_PACKETS = 100, HOST_PACKETS = 1000;  // in addition to the packet being sent, which is not in ns-3's queue
const double LOST_SYN_US = 900e3;                          // flows that lost a SYN take this long at least
const uint16_t FIRST_PORT = 1024;
const size_t MAX_FLOWS = 60000;  // each flow has its own receiver port

uint64_t hops = 0;
size_t unfinished = 0;

// An address names a host and the path that leads to it, so that switches need no state of flows. Host numbers have 14 bits, paths 10.
Ipv4Address address(uint32_t host, uint32_t path) { return Ipv4Address((10u << 24) | (host << 10) | (path + 1)); }
uint32_t host_of(Ipv4Address address) { return address.Get() >> 10 & 0x3fff; }
uint32_t path_of(Ipv4Address address) { return (address.Get() & 0x3ff) - 1; }

// A port of a node: ns-3's device with a drop-tail queue. Devices are joined by `cable`.
Ptr<PointToPointNetDevice> device(Ptr<Node> node, uint32_t packets) {
    auto queue = CreateObject<DropTailQueue<Packet>>();
    queue->SetMaxSize(QueueSize(QueueSizeUnit::PACKETS, packets));
    auto port = CreateObject<PointToPointNetDevice>();
    port->SetDataRate(DataRate("10Gbps"));
    port->SetQueue(queue);
    port->SetAddress(Mac48Address::Allocate());
    node->AddDevice(port);
    return port;
}

struct Switch {
    Ptr<Node> node;
    std::vector<Ptr<PointToPointNetDevice>> down, up;
};

class FatTree {
    uint32_t half, per_pod;
    std::vector<Ptr<PointToPointNetDevice>> ports;
    std::vector<Switch> edges, aggregations, cores;

    void cable(Ptr<PointToPointNetDevice> a, Ptr<PointToPointNetDevice> b) {
        auto wire = CreateObject<PointToPointChannel>();
        wire->SetAttribute("Delay", TimeValue(MicroSeconds(1)));
        a->Attach(wire);
        b->Attach(wire);
        ports.push_back(a);
        ports.push_back(b);
    }
    Ptr<PointToPointNetDevice> port(Switch& at, bool up) {
        auto made = device(at.node, SWITCH_PACKETS);
        (up ? at.up : at.down).push_back(made);
        return made;
    }
    // Packets for this host that arrive at a switch of this layer leave by the returned port.
    Ptr<PointToPointNetDevice> edge_port(uint32_t edge, uint32_t host, uint32_t path) {
        if (host / half == edge) return edges[edge].down[host % half];
        return edges[edge].up[path / half];
    }
    Ptr<PointToPointNetDevice> aggregation_port(uint32_t aggregation, uint32_t host, uint32_t path) {
        if (host / per_pod == aggregation / half) return aggregations[aggregation].down[host % per_pod / half];
        return aggregations[aggregation].up[path % half];
    }
    Ptr<PointToPointNetDevice> core_port(uint32_t core, uint32_t host, uint32_t) { return cores[core].down[host / per_pod]; }

    using Choose = Ptr<PointToPointNetDevice> (FatTree::*)(uint32_t, uint32_t, uint32_t);
    void add_switches(std::vector<Switch>& layer, uint32_t count, Choose choose) {
        for (uint32_t i = 0; i < count; ++i) {
            layer.push_back({CreateObject<Node>(), {}, {}});
            auto forward = [this, i, choose](Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t protocol, const Address&, const Address& to,
                                             NetDevice::PacketType) {
                ++hops;
                Ipv4Header header;
                packet->PeekHeader(header);
                Ipv4Address end = header.GetDestination();
                (this->*choose)(i, host_of(end), path_of(end))->Send(packet->Copy(), to, protocol);
            };
            layer.back().node->RegisterProtocolHandler(Node::ProtocolHandler(forward), Ipv4L3Protocol::PROT_NUMBER, nullptr);
        }
    }

  public:
    NodeContainer hosts;
    std::vector<Ptr<PointToPointNetDevice>> host_ports;

    explicit FatTree(uint32_t k) : half(k / 2), per_pod(half * half) {
        hosts.Create(k * per_pod);
        add_switches(edges, k * half, &FatTree::edge_port);
        add_switches(aggregations, k * half, &FatTree::aggregation_port);
        add_switches(cores, per_pod, &FatTree::core_port);
        for (uint32_t h = 0; h < hosts.GetN(); ++h) {
            host_ports.push_back(device(hosts.Get(h), HOST_PACKETS));
            cable(host_ports.back(), port(edges[h / half], false));
        }
        for (uint32_t pod = 0; pod < k; ++pod)
            for (uint32_t i = 0; i < half; ++i)
                for (uint32_t j = 0; j < half; ++j) cable(port(edges[pod * half + i], true), port(aggregations[pod * half + j], false));
        // Core p belongs to path p: uplink p mod (k/2) of aggregation switch p / (k/2).
        for (uint32_t pod = 0; pod < k; ++pod)
            for (uint32_t p = 0; p < per_pod; ++p) cable(port(aggregations[pod * half + p / half], true), port(cores[p], false));
    }
    uint64_t drops() const {
        uint64_t sum = 0;
        for (auto& port : ports) sum += port->GetQueue()->GetTotalDroppedPackets();
        return sum;
    }
};

void arrived(Ptr<const Packet>) { ++hops; }

// Installs ns-3's IP and TCP on the hosts, without a queue discipline: the queues are those of the devices.
void install_stacks(FatTree& tree) {
    InternetStackHelper stack;
    Ipv4StaticRoutingHelper routing;
    stack.SetRoutingHelper(routing);
    stack.SetIpv6StackInstall(false);
    stack.Install(tree.hosts);
    for (uint32_t h = 0; h < tree.hosts.GetN(); ++h) {
        auto ip = tree.hosts.Get(h)->GetObject<Ipv4>();
        ip->SetUp(ip->AddInterface(tree.host_ports[h]));
        tree.host_ports[h]->TraceConnectWithoutContext("MacRx", MakeCallback(&arrived));
    }
}

// Returns the host's address for packets that take the path to it, and assigns it if necessary.
Ipv4Address assign(Ptr<Node> node, uint32_t host, uint32_t path) {
    auto ip = node->GetObject<Ipv4>();
    Ipv4Address wanted = address(host, path);
    if (ip->GetInterfaceForAddress(wanted) < 0) ip->AddAddress(1, Ipv4InterfaceAddress(wanted, Ipv4Mask("255.0.0.0")));
    return wanted;
}

struct Flow {
    Ptr<Socket> sender, listener, receiver;
    uint32_t bytes;
    uint64_t received = 0;
    Time start, done;
    InetSocketAddress from, to;

    Flow(uint32_t bytes, Time start, InetSocketAddress from, InetSocketAddress to) : bytes(bytes), start(start), from(from), to(to) {}
    void receive(Ptr<Socket> socket) {
        while (auto packet = socket->Recv()) received += packet->GetSize();
        if (received < bytes || done.IsStrictlyPositive()) return;
        done = Simulator::Now();
        if (--unfinished == 0) Simulator::Stop();
    }
    void accept(Ptr<Socket> socket, const Address&) {
        receiver = socket;
        receiver->SetRecvCallback(MakeCallback(&Flow::receive, this));
    }
    void send(Ptr<Socket>) { sender->Send(Create<Packet>(bytes)); }
    void begin(Ptr<Node> source, Ptr<Node> destination) {
        listener = Socket::CreateSocket(destination, TcpSocketFactory::GetTypeId());
        listener->Bind(to);
        listener->Listen();
        listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(), MakeCallback(&Flow::accept, this));
        sender = Socket::CreateSocket(source, TcpSocketFactory::GetTypeId());
        sender->Bind(from);
        sender->SetConnectCallback(MakeCallback(&Flow::send, this), MakeNullCallback<void, Ptr<Socket>>());
        sender->Connect(to);
    }
};

void set_defaults(bool sack, bool classic) {
    Time::SetResolution(Time::PS);
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(classic ? TcpClassicRecovery::GetTypeId() : TcpPrrRecovery::GetTypeId()));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(sack));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::LimitedTransmit", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(10)));
    Config::SetDefault("ns3::RttEstimator::InitialEstimation", TimeValue(Seconds(3)));
    Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(Seconds(3)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(MSS));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    // The window cap. A flow's data is written at once, so the send buffer has to hold it all.
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(WINDOW_CAP * MSS));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1u << 30));
}

double quantile(const std::vector<double>& sorted, double q) {
    if (sorted.empty()) return 0;
    return sorted[std::max(0, int(std::ceil(q * sorted.size())) - 1)];
}

double wall() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double processor() { return double(std::clock()) / CLOCKS_PER_SEC; }

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

// As in the tables of the flow files' README, flows that lost a SYN, which take seconds, are left out.
void report(const std::vector<Flow*>& flows, uint64_t drops, double wall_s, double processor_s, double setup_s) {
    std::vector<double> fct;
    for (auto flow : flows) {
        double us = (flow->done - flow->start).GetPicoSeconds() * 1e-6;
        if (flow->done.IsStrictlyPositive() && us < LOST_SYN_US) fct.push_back(us);
    }
    std::sort(fct.begin(), fct.end());
    double sum = 0;
    for (double us : fct) sum += us;
    size_t done = flows.size() - unfinished;
    std::printf(
        "{\"flows\": %zu, \"done\": %zu, \"lost_syn\": %zu, \"mean_us\": %.3f, \"p50_us\": %.3f, \"p90_us\": %.3f, \"p99_us\": %.3f, "
        "\"packet_hops\": %llu, \"drops\": %llu, \"sim_s\": %.9f, \"wall_s\": %.6f, \"cpu_s\": %.6f, \"setup_s\": %.6f, "
        "\"peak_rss_bytes\": %ld}\n",
        flows.size(), done, done - fct.size(), sum / std::max<size_t>(fct.size(), 1), quantile(fct, 0.5), quantile(fct, 0.9),
        quantile(fct, 0.99), (unsigned long long)hops, (unsigned long long)drops, Simulator::Now().GetSeconds(), wall_s, processor_s,
        setup_s, peak_bytes());
}

}  // namespace

int main(int count, char** words) {
    double setup_began = wall();
    bool sack = false, classic = false;
    for (int i = 3; i < count; ++i) {
        sack |= std::string(words[i]) == "sack";
        classic |= std::string(words[i]) == "classic";
    }
    if (count != 3 + sack + classic) return fail("usage: flows FILE.flows K [sack] [classic]");
    int k = std::atoi(words[2]);
    if (k < 2 || k > 40 || k % 2 != 0) return fail(std::string("no fat tree here has k ") + words[2] + ", which is even, from 2 to 40");
    std::ifstream file(words[1]);
    if (!file) return fail(std::string("no file ") + words[1]);

    set_defaults(sack, classic);
    FatTree tree(k);
    install_stacks(tree);
    std::vector<Flow*> flows;
    std::string line;
    uint32_t hosts = tree.hosts.GetN(), paths = k * k / 4;
    while (std::getline(file, line)) {
        uint64_t id, from, to, packets, start_ns, forward, reverse;
        if (!(std::istringstream(line) >> id >> from >> to >> packets >> start_ns >> forward >> reverse)) continue;
        bool known = from < hosts && to < hosts && from != to && forward < paths && reverse < paths;
        if (!known || packets == 0 || packets > (1u << 30) / MSS) return fail("what flow is this: " + line);
        if (flows.size() == MAX_FLOWS) return fail("more flows than receiver ports");
        uint16_t port = FIRST_PORT + flows.size();
        InetSocketAddress source(assign(tree.hosts.Get(from), from, reverse), port);
        InetSocketAddress end(assign(tree.hosts.Get(to), to, forward), port);
        flows.push_back(new Flow(packets * MSS, NanoSeconds(start_ns), source, end));
        Simulator::Schedule(flows.back()->start, &Flow::begin, flows.back(), tree.hosts.Get(from), tree.hosts.Get(to));
    }
    unfinished = flows.size();

    double wall_began = wall(), processor_began = processor();
    Simulator::Run();
    double wall_s = wall() - wall_began, processor_s = processor() - processor_began;
    report(flows, tree.drops(), wall_s, processor_s, wall_began - setup_began);
    return 0;
}
