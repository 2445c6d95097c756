//! A sans-IO Multipath TCP (RFC 8684) with proactive multipath loss recovery.
