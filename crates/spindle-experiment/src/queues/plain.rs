//! `drop-tail` and `priorities`: disciplines without settings.

use std::sync::Arc;

use spindle_fabric::Queueing;

use super::ReadQueue;
use crate::catalog::Catalog;

pub(super) fn register_drop_tail(catalog: &mut Catalog<ReadQueue>) {
    let summary = "one FIFO queue, as at ports without a discipline";
    catalog.add(
        "drop-tail",
        summary,
        Arc::new(|_| Ok(Queueing::drop_tail())),
    );
}

pub(super) fn register_priorities(catalog: &mut Catalog<ReadQueue>) {
    let summary = "two strict priorities, short flows first (mechanisms A5.13)";
    catalog.add(
        "priorities",
        summary,
        Arc::new(|_| Ok(Queueing::priorities())),
    );
}
