//! Groups and one-line summaries of the names that come with Spindle.

use spindle_mptcp::PRESETS;

use crate::registry::COMBINED;

/// A heading and its names.
pub(super) struct Group {
    /// The heading.
    pub(super) title: &'static str,
    /// A name and what distinguishes it. A capital `N` in the name stands for a number.
    pub(super) entries: &'static [(&'static str, &'static str)],
}

const fn group(title: &'static str, entries: &'static [(&'static str, &'static str)]) -> Group {
    Group { title, entries }
}

/// Whether `name` is `pattern`, or `pattern` with a number in place of its `N`. The number is returned with it.
pub(super) fn matches(pattern: &str, name: &str) -> Option<Option<u32>> {
    let Some((before, after)) = pattern.split_once('N') else {
        return (pattern == name).then_some(None);
    };
    let digits = name.strip_prefix(before)?.strip_suffix(after)?;
    let number = digits.parse().ok()?;
    Some(Some(number))
}

/// Headings of transports, each with the names of its transports. Their summaries stand where they are
/// registered: [`PRESETS`] and [`COMBINED`].
pub(super) const TRANSPORTS: &[(&str, &[&str])] = &[
    (
        "for all networks, the default of `spindle gateway` and `spindle connect`",
        &["spindle"],
    ),
    (
        "plain TCP",
        &["tcp", "newreno", "dctcp", "tlp", "rack", "tlt"],
    ),
    (
        "TCP schemes that the papers compare with",
        &["reactive", "tcp-ir", "corrective", "proactive", "repflow"],
    ),
    (
        "MPTCP baselines",
        &["mptcp", "mptcp-N", "mptcp-linux", "deadline-reinjection"],
    ),
    (
        "MPTCP with schedulers for unequal paths",
        &[
            "mptcp-ecf",
            "mptcp-ecf-N",
            "mptcp-blest",
            "mptcp-blest-N",
            "mptcp-dems",
            "mptcp-dems-N",
        ],
    ),
    (
        "FUSO",
        &["fuso", "fuso-N", "fuso-unmodified", "fuso-unmodified-N"],
    ),
    (
        "CoFUSO",
        &[
            "cofuso",
            "cofuso-N",
            "cofuso-xor",
            "cofuso-xor-N",
            "cofuso-fixed",
            "cofuso-fixed-N",
        ],
    ),
    (
        "MMPTCP",
        &[
            "ps",
            "mmptcp",
            "mmptcp-lt",
            "mmptcp-as",
            "mmptcp-fc",
            "mmptcp-uc",
            "ps-tcp",
            "mptcp-tcp",
        ],
    ),
    ("CAPS", &["caps", "caps-dark"]),
    (
        "recovery schemes of other publications",
        &["xlink", "autorec", "hairpin", "cloudburst"],
    ),
    (
        "path choice by the host's flow labels",
        &["prr", "plb", "flowbender", "reps"],
    ),
    (
        "bounds, which no protocol can reach",
        &["oracle", "oracle-N"],
    ),
];

/// What distinguishes a transport of [`TRANSPORTS`].
pub(super) fn transport_summary(pattern: &str) -> Option<&'static str> {
    let preset = |name: &str| PRESETS.iter().find(|p| p.name == name);
    if let Some(family) = pattern.strip_suffix("-N") {
        return preset(family)?.numbered;
    }
    let combined = COMBINED.iter().find(|(name, _)| *name == pattern);
    preset(pattern).map(|p| p.summary).or(combined.map(|c| c.1))
}

/// The transports of the kernel, which only the testbed has.
pub(super) const KERNEL: Group = group(
    "the kernel's stacks (`spindle testbed` only)",
    &[
        ("kernel-tcp", "the Linux kernel's TCP"),
        (
            "kernel-mptcp",
            "the Linux kernel's MPTCP, a subflow for each interface",
        ),
    ],
);

/// The variants.
pub(super) const VARIANTS: &[Group] = &[
    group(
        "scheduler",
        &[
            (
                "minrtt",
                "the subflow with room and the lowest smoothed RTT",
            ),
            (
                "roundrobin",
                "the subflows with room in turn, one segment each",
            ),
            ("redundant", "every byte on every subflow"),
            (
                "linger",
                "the Linux kernel's: bursts to the lowest linger time",
            ),
            (
                "ecf",
                "waits for the fastest subflow if that completes the data earlier",
            ),
            (
                "blest",
                "keeps the peer's window free for the fastest subflow",
            ),
            (
                "dems",
                "sends the data from both ends until the subflows meet",
            ),
            ("earliest", "ECF that counts the repair of expected losses"),
        ],
    ),
    group(
        "path manager",
        &[
            ("passive", "no further subflows"),
            (
                "full-mesh",
                "a subflow for each pair of local and remote address",
            ),
        ],
    ),
    group(
        "first path",
        &[
            (
                "raced-syn",
                "SYNs from all addresses, two from a single one; the first answer decides",
            ),
            ("no-race", "the SYN is sent once, from one address"),
            (
                "early-join",
                "further subflows are opened together with the third ACK",
            ),
            (
                "no-early-join",
                "further subflows are opened once the peer has acknowledged data",
            ),
        ],
    ),
    group(
        "congestion control",
        &[
            ("reno", "Reno, uncoupled"),
            ("cubic", "CUBIC, uncoupled"),
            ("dctcp", "DCTCP, uncoupled"),
            ("lia", "Linked Increases (RFC 6356)"),
            ("olia", "Opportunistic Linked Increases"),
            ("balia", "Balanced Linked Adaptation"),
            (
                "delay-bounded",
                "bounded by the queue's delay, CUBIC among full queues",
            ),
            ("fully-coupled", "fully coupled"),
        ],
    ),
    group(
        "loss recovery of each subflow",
        &[
            ("sack", "SACK, recovery by RFC 6675, D-SACK undo and F-RTO"),
            ("newreno", "NewReno without SACK and Limited Transmit"),
            ("rack", "RACK-TLP and PRR"),
            ("tlp", "tail loss probe after 2 smoothed RTTs"),
            ("tlp-floor", "tail loss probe no earlier than 10 ms"),
            (
                "early-probe",
                "tail loss probe once the acknowledgement of the last segment is overdue",
            ),
            ("no-early-probe", "tail loss probe after 2 smoothed RTTs"),
            ("cwnd-halved", "ssthresh from cwnd, not from FlightSize"),
            ("tlt", "the last segment of a burst is marked important"),
            ("no-er", "no Early Retransmit"),
            (
                "er-delay",
                "Early Retransmit after a quarter of an RTT, at least 2 ms",
            ),
            (
                "bounded-back-off",
                "the retransmission timeout doubles at most 5 times, up to 1 s",
            ),
            (
                "no-bounded-back-off",
                "the retransmission timeout doubles up to 60 s",
            ),
            (
                "full-windows",
                "the initial window counts segments without their options",
            ),
            (
                "no-full-windows",
                "windows are numbers of full segments, options included",
            ),
            (
                "rttvar-floor",
                "the minimum RTO bounds only the part beyond the smoothed RTT",
            ),
            (
                "slow-start-at-ssthresh",
                "slow start also while cwnd equals ssthresh",
            ),
            (
                "idle-decay",
                "idle time halves cwnd for each RTO (RFC 2861)",
            ),
            (
                "classic-hystart",
                "CUBIC with HyStart (Ha and Rhee 2008), not HyStart++",
            ),
            ("timer-ticks", "timers expire at ticks of 1 ms"),
            (
                "authors-proactive",
                "Proactive as in FUSO's authors' code: retransmissions twice, copies ECT",
            ),
            (
                "late-rtt",
                "no RTT measurement from the handshake, first RTO 1.5 s",
            ),
        ],
    ),
    group(
        "path entropy (flow labels)",
        &[
            ("prr", "another path after a timeout (Protective ReRoute)"),
            ("plb", "another path after sustained congestion (PLB)"),
            (
                "flowbender",
                "another path after a round with marks (FlowBender)",
            ),
            ("reps", "each packet a path without marks (REPS)"),
            (
                "path-table",
                "paths in turn, without those that lost packets",
            ),
            ("spray", "a random path for each packet"),
            ("no-entropy", "no flow labels"),
        ],
    ),
    group(
        "MPTCP connection and receiver",
        &[
            (
                "early",
                "out-of-order subflow data are delivered to the data level at once",
            ),
            (
                "held",
                "out-of-order subflow data are held back, as by MPTCP v0.90",
            ),
            (
                "ordered",
                "a buffer puts segments in order before TCP sees them (Presto)",
            ),
            (
                "no-opportunistic",
                "no opportunistic retransmission and penalisation",
            ),
            (
                "dead-1",
                "a subflow is dead after 1 timeout, and its data are reinjected",
            ),
            ("no-reinjection", "no subflow is judged dead"),
            ("joined-first", "new data wait while a join is unanswered"),
        ],
    ),
    group(
        "FUSO",
        &[
            ("fuso", "FUSO's recovery is added"),
            ("authors", "path metric as in the authors' code"),
            (
                "authors-drain",
                "path metric as in mode 1 of the authors' code",
            ),
            (
                "literal-worst",
                "the worst path is chosen of all paths with data in flight",
            ),
            ("elsewhere", "the best path is never the worst path"),
            (
                "tie-elsewhere",
                "among equal best paths, one that is not the worst path",
            ),
            (
                "copy-sacked",
                "data that were SACKed but not DATA_ACKed are copied too",
            ),
            ("worst-1", "the first subflow is always the worst path"),
        ],
    ),
    group(
        "any recovery policy",
        &[
            ("budget-N", "recovery sends at most N % of the new bytes"),
            ("no-budget", "recovery has no budget"),
            ("no-recovery", "no recovery policy"),
            (
                "priced-copies",
                "copies of late segments, and of others at a price",
            ),
            (
                "tail-parities",
                "the same, and parities of the last flight at a price",
            ),
        ],
    ),
    group("XLINK", &[("no-thresholds", "re-injection is always on")]),
    group(
        "CoFUSO",
        &[
            ("fixed-N", "N % parities"),
            ("block-N", "at most N packets in a block"),
            ("parities-N", "at most N parities for a block"),
            ("authors-block", "blocks as in the authors' code"),
            (
                "coding-first",
                "no copies before parities cover all subflows",
            ),
        ],
    ),
    group(
        "MMPTCP",
        &[
            (
                "scatter-acks",
                "acknowledgements without data are scattered too",
            ),
            ("dup-N", "duplicate-ACK threshold N while scattering"),
            (
                "adaptive",
                "duplicate-ACK threshold from the reordering that D-SACKs show",
            ),
            ("at-NKB", "second phase after N KB"),
            ("at-window", "second phase once the window has 64 KB"),
            (
                "at-congestion",
                "second phase at the first sign of congestion",
            ),
            ("dctcp-first", "DCTCP while scattering"),
            ("priority", "high priority at ports while scattering"),
        ],
    ),
    group(
        "CAPS",
        &[
            ("k-window", "units of as many segments as the window"),
            ("k-N", "units of N segments"),
            ("r-N", "N redundant packets for each unit"),
            ("blocked-N", "redundancy as if N of 12 paths were blocked"),
            ("ldpc", "code: LDPC"),
            (
                "ldpc-systematic",
                "code: LDPC, the segments themselves first",
            ),
            ("rs", "code: Reed-Solomon"),
            (
                "rs-systematic",
                "code: Reed-Solomon, the segments themselves first",
            ),
            (
                "tcp-ack-rtt",
                "the share of blocked packets is estimated from TCP's acknowledgements",
            ),
            (
                "p-smoothed",
                "the share of blocked packets is smoothed over all packets so far",
            ),
            (
                "p-known",
                "the share of blocked packets is that of paths with long flows",
            ),
            (
                "p-shared",
                "the hosts of a rack learn the share of blocked packets together",
            ),
            (
                "rtt-known",
                "equation 4 starts with the round-trip times of the network",
            ),
            ("real-r", "k by equation 4 with r not rounded"),
            (
                "in-order",
                "segments of a unit wait for earlier units, at most 2 ms",
            ),
        ],
    ),
];

/// The balancers.
pub(super) const BALANCERS: &[(&str, &str)] = &[
    (
        "ecmp",
        "the hash of addresses and ports selects the path of a flow (default)",
    ),
    ("rps", "each packet takes a random path"),
    ("presto", "each 64 KiB of a flow take a random path"),
    (
        "freeway",
        "long flows have reserved paths, short flows use ECMP on the others",
    ),
    (
        "caps",
        "`rps`, but long flows use ECMP while short flows are active",
    ),
    (
        "caps-dark",
        "`caps` for switches that do not know which flows are long",
    ),
    (
        "flowlet",
        "a flow that pauses for 500 us takes a new random path",
    ),
    (
        "drill",
        "the shortest queue of two random paths and the last packet's best",
    ),
    (
        "conga",
        "a flow that pauses for 500 us takes the least congested path",
    ),
];
