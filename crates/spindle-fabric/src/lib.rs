//! A packet-level discrete-event network: links, queues, loss, switches and topologies, generic over what it carries.
