//! Numbers of a run's flows and connections.

/// A flow, by its index in the plan's flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FlowId(pub(crate) u32);

impl FlowId {
    /// The index of the flow in the plan and in everything that has one entry per flow.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A connection, by the order in which the connections of a run are opened, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnId(pub(crate) u32);

impl ConnId {
    /// The index of the connection in the list of connections.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a connection transfers data for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// A flow of the plan.
    Flow(FlowId),
    /// The warm-up response of the connection.
    WarmUp,
    /// The request that a client sends so that its joins are possible. Its response is empty.
    JoinTrigger,
}
