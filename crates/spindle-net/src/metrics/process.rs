//! Metrics of the process itself, under the names that Prometheus's client libraries share (without the prefix
//! `spindle`): <https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics>.

use std::fmt::Error;

use procfs::WithCurrentSystemInfo;
use procfs::process::{LimitValue, Process, Stat};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// What /proc tells of this process.
#[derive(Debug)]
pub(super) struct ProcessMetrics;

/// A gauge: its name, its help, its unit and its value.
type Gauge = (&'static str, &'static str, Option<Unit>, f64);

/// The values that can be read. A system may hide some of them.
fn gauges(process: &Process, stat: &Stat) -> Vec<Gauge> {
    let resident = stat.rss_bytes().get() as f64;
    let mut list = vec![
        (
            "process_resident_memory",
            "Resident memory size",
            Some(Unit::Bytes),
            resident,
        ),
        (
            "process_virtual_memory",
            "Virtual memory size",
            Some(Unit::Bytes),
            stat.vsize as f64,
        ),
        (
            "process_threads",
            "Number of threads",
            None,
            stat.num_threads as f64,
        ),
    ];
    if let Ok(boot) = procfs::boot_time_secs() {
        let since_boot = stat.starttime as f64 / procfs::ticks_per_second() as f64;
        list.push((
            "process_start_time",
            "Start time of the process since the Unix epoch",
            Some(Unit::Seconds),
            boot as f64 + since_boot,
        ));
    }
    if let Ok(open) = process.fd_count() {
        list.push((
            "process_open_fds",
            "Number of open file descriptors",
            None,
            open as f64,
        ));
    }
    if let Ok(limits) = process.limits()
        && let LimitValue::Value(most) = limits.max_open_files.soft_limit
    {
        list.push((
            "process_max_fds",
            "Maximum number of open file descriptors",
            None,
            most as f64,
        ));
    }
    list
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        // Without /proc there are no such metrics.
        let Ok(process) = Process::myself() else {
            return Ok(());
        };
        let Ok(stat) = process.stat() else {
            return Ok(());
        };
        for (name, help, unit, value) in gauges(&process, &stat) {
            let gauge = ConstGauge::new(value);
            let metric =
                encoder.encode_descriptor(name, help, unit.as_ref(), gauge.metric_type())?;
            gauge.encode(metric)?;
        }
        let ticks = (stat.utime + stat.stime) as f64;
        let cpu = ConstCounter::new(ticks / procfs::ticks_per_second() as f64);
        let help = "Total user and system CPU time spent";
        let unit = Some(&Unit::Seconds);
        let metric = encoder.encode_descriptor("process_cpu", help, unit, cpu.metric_type())?;
        cpu.encode(metric)
    }
}
