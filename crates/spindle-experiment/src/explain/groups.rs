//! Groups and one-line summaries of the names that come with Spindle.

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

/// The transports of the registry.
pub(super) const TRANSPORTS: &[Group] = &[
    group(
        "plain TCP",
        &[
            ("tcp", "TCP with SACK and Reno, as the papers configure it"),
            ("newreno", "TCP with NewReno and without SACK"),
            ("dctcp", "`tcp` with DCTCP in place of Reno"),
            ("tlp", "`tcp` with a tail loss probe after 2 smoothed RTTs"),
            ("rack", "TCP with RACK-TLP and PRR"),
        ],
    ),
    group(
        "TCP schemes that the papers compare with",
        &[
            ("reactive", "`tlp` under the name that CoFUSO's paper uses"),
            (
                "tcp-ir",
                "`tcp` with one XOR packet for each half RTT of data",
            ),
            (
                "corrective",
                "`tcp` with one XOR packet for each quarter RTT of data",
            ),
            ("proactive", "`tcp` that sends every data segment twice"),
            (
                "repflow",
                "two `tcp` connections for each request below 100 KB",
            ),
        ],
    ),
    group(
        "MPTCP baselines",
        &[
            (
                "mptcp",
                "MPTCP with 4 subflows, LIA and the minimum-RTT scheduler",
            ),
            ("mptcp-N", "`mptcp` with N subflows"),
            (
                "mptcp-linux",
                "MPTCP as in the Linux kernel: its scheduler, reinjection and CUBIC",
            ),
            (
                "deadline-reinjection",
                "`mptcp` that reinjects old data, as xquic does",
            ),
        ],
    ),
    group(
        "FUSO",
        &[
            (
                "fuso",
                "`mptcp` that copies data of the worst subflow over the best subflow",
            ),
            ("fuso-N", "`fuso` with N subflows"),
            (
                "fuso-unmodified",
                "`fuso` to a receiver that does not support it",
            ),
            ("fuso-unmodified-N", "`fuso-unmodified` with N subflows"),
        ],
    ),
    group(
        "CoFUSO",
        &[
            (
                "cofuso",
                "`fuso` that sends Reed-Solomon parities first, 5 subflows",
            ),
            ("cofuso-N", "`cofuso` with N subflows"),
            (
                "cofuso-xor",
                "`cofuso` as in the paper's testbed: XOR parities, 3 subflows",
            ),
            ("cofuso-xor-N", "`cofuso-xor` with N subflows"),
            (
                "cofuso-fixed",
                "`cofuso` with a constant share of parities, 4 %",
            ),
            ("cofuso-fixed-N", "`cofuso` with N % parities"),
        ],
    ),
    group(
        "MMPTCP",
        &[
            (
                "ps",
                "packet scatter: one window, a random path for each segment",
            ),
            (
                "mmptcp",
                "`ps` for the first 100 KB, then MPTCP with 8 subflows",
            ),
            ("mmptcp-lt", "`mmptcp` with modified Limited Transmit"),
            ("mmptcp-as", "`mmptcp` with as many subflows as paths"),
            (
                "mmptcp-fc",
                "`mmptcp` with fully coupled congestion control",
            ),
            (
                "mmptcp-uc",
                "`mmptcp` with uncoupled congestion control (Reno)",
            ),
            ("ps-tcp", "`ps` for long flows, NewReno for the others"),
            (
                "mptcp-tcp",
                "MPTCP with 8 subflows for long flows, NewReno for the others",
            ),
        ],
    ),
    group(
        "CAPS",
        &[
            (
                "caps",
                "`tcp` over coded packets for short flows, for the balancer `caps`",
            ),
            (
                "caps-dark",
                "`caps` that codes the first 100 KB of every flow",
            ),
        ],
    ),
    group(
        "bounds, which no protocol can reach",
        &[
            (
                "oracle",
                "MPTCP that learns of each drop at once and repeats it without loss",
            ),
            ("oracle-N", "`oracle` with N subflows"),
        ],
    ),
];

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
        "congestion control",
        &[
            ("reno", "Reno, uncoupled"),
            ("cubic", "CUBIC, uncoupled"),
            ("dctcp", "DCTCP, uncoupled"),
            ("lia", "Linked Increases (RFC 6356)"),
            ("olia", "Opportunistic Linked Increases"),
            ("balia", "Balanced Linked Adaptation"),
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
            ("cwnd-halved", "ssthresh from cwnd, not from FlightSize"),
            ("no-er", "no Early Retransmit"),
            (
                "late-rtt",
                "no RTT measurement from the handshake, first RTO 1.5 s",
            ),
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
];
