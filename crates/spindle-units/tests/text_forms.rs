//! The text forms of quantities: which texts are read, what is written, and which texts are refused and why.

use proptest::prelude::*;
use spindle_units::{BitRate, Bytes, Duration, Instant, Probability, UnitError};

fn span(text: &str) -> Result<u64, UnitError> {
    text.parse::<Duration>().map(Duration::as_nanos)
}

#[test]
fn durations_are_read() {
    assert_eq!(span("280us"), Ok(280_000));
    assert_eq!(span("5ms"), Ok(5_000_000));
    assert_eq!(span("1.5s"), Ok(1_500_000_000));
    assert_eq!(span("200ns"), Ok(200));
    assert_eq!(span(" 20 ms "), Ok(20_000_000));
    assert_eq!(span("2min"), Ok(120_000_000_000));
    assert_eq!(span("1.5\u{b5}s"), Ok(1_500));
    assert_eq!(span(".5ns"), Ok(1), "rounds to nearest");
    assert_eq!(span("0.00028000000000000003s"), Ok(280_000));
    assert_eq!("7us".parse::<Instant>(), Ok(Instant::from_nanos(7_000)));
}

#[test]
fn sizes_and_rates_are_read() {
    let size = |t: &str| t.parse::<Bytes>().map(|b| b.0);
    assert_eq!(size("128KB"), Ok(128_000));
    assert_eq!(size("1MiB"), Ok(1 << 20));
    assert_eq!(size("64B"), Ok(64));
    assert_eq!(size("1460"), Ok(1460));
    assert_eq!(size("1.5KB"), Ok(1500));
    let rate = |t: &str| t.parse::<BitRate>().map(|b| b.0);
    assert_eq!(rate("1Gbps"), Ok(1_000_000_000));
    assert_eq!(rate("1.5Gbps"), Ok(1_500_000_000));
    assert_eq!(rate("300Mbps"), Ok(300_000_000));
    assert_eq!(rate("500Kbps"), Ok(500_000));
    assert_eq!(rate("9600bps"), Ok(9600));
}

#[test]
fn probabilities_are_read_exactly() {
    assert_eq!("2%".parse::<Probability>().map(Probability::get), Ok(0.02));
    assert_eq!(
        "0.02".parse::<Probability>().map(Probability::get),
        Ok(0.02)
    );
    assert_eq!(
        "0.3 %".parse::<Probability>().map(Probability::get),
        Ok(0.003)
    );
    assert_eq!(
        "1e-3".parse::<Probability>().map(Probability::get),
        Ok(0.001)
    );
    assert_eq!("100%".parse(), Ok(Probability::ONE));
    assert_eq!("0".parse(), Ok(Probability::ZERO));
}

#[test]
fn display_writes_the_documented_text_forms() {
    let d = |n| Duration::from_nanos(n).to_string();
    assert_eq!(d(0), "0s");
    assert_eq!(d(200), "200ns");
    assert_eq!(d(280_000), "280us");
    assert_eq!(d(1_500_000_000), "1.5s");
    assert_eq!(d(1_000_000_001), "1.000000001s");
    assert_eq!(Bytes(128_000).to_string(), "128KB");
    assert_eq!(Bytes(1_500_000).to_string(), "1.5MB");
    assert_eq!(Bytes(65_536).to_string(), "64KiB");
    assert_eq!(Bytes(1460).to_string(), "1460B");
    assert_eq!(BitRate(1_500_000_000).to_string(), "1.5Gbps");
    assert_eq!(BitRate(0).to_string(), "0bps");
    assert_eq!(
        "0.02".parse::<Probability>().map(|p| p.to_string()),
        Ok("2%".into())
    );
    assert_eq!(format!("[{:>7}]", Duration::from_millis(5)), "[    5ms]");
}

#[test]
fn malformed_texts_are_refused_with_the_error_that_fits() {
    assert!(matches!(span("-5ms"), Err(UnitError::Negative { .. })));
    assert!(matches!(span("ms"), Err(UnitError::NotANumber { .. })));
    assert!(matches!(span(""), Err(UnitError::NotANumber { .. })));
    assert!(matches!(span("."), Err(UnitError::NotANumber { .. })));
    assert!(matches!(span("1.2.3s"), Err(UnitError::NotANumber { .. })));
    assert!(matches!(span("1-2s"), Err(UnitError::NotANumber { .. })));
    assert!(matches!(span("5"), Err(UnitError::MissingUnit { .. })));
    assert!(matches!(span("5MS"), Err(UnitError::UnknownUnit { ref unit, .. }) if unit == "MS"));
    assert!(matches!(
        span("18446744074s"),
        Err(UnitError::Overflow { .. })
    ));
    assert!(matches!(
        span(&format!("{}s", "9".repeat(60))),
        Err(UnitError::Overflow { .. })
    ));
    assert!(matches!(
        "1.5".parse::<Bytes>(),
        Err(UnitError::NotWhole { .. })
    ));
    assert!(matches!(
        "10".parse::<BitRate>(),
        Err(UnitError::MissingUnit { .. })
    ));
    assert!(matches!(
        "1gbps".parse::<BitRate>(),
        Err(UnitError::UnknownUnit { .. })
    ));
    for text in ["2", "-0.1", "101%"] {
        assert!(
            matches!(
                text.parse::<Probability>(),
                Err(UnitError::OutOfRange { .. })
            ),
            "{text}"
        );
    }
    for text in ["", "%", "nan", "inf", "x"] {
        assert!(
            matches!(
                text.parse::<Probability>(),
                Err(UnitError::NotANumber { .. })
            ),
            "{text}"
        );
    }
    let text = "5 parsecs".parse::<Duration>().map_err(|e| e.to_string());
    assert_eq!(
        text,
        Err(
            "`5 parsecs` is not a duration: unknown unit `parsecs`; accepted is a number with ns, \
             us, ms, s or min, as in \"280us\" or \"1.5s\""
                .into()
        )
    );
}

#[test]
fn time_to_send_saturates_instead_of_wrapping() {
    assert_eq!(
        BitRate(1_000_000_000).time_to_send(1500),
        Duration::from_micros(12)
    );
    assert_eq!(BitRate(1).time_to_send(u64::MAX), Duration::MAX);
    assert_eq!(
        BitRate(8_000).bytes_in(Duration::from_secs(2)),
        Bytes(2_000)
    );
}

proptest! {
    #[test]
    fn quantities_parse_back_from_their_own_text(n in prop_oneof![any::<u64>(), 0u64..10_000_000, (0u64..5000, 0u32..13).prop_map(|(n, e)| n * 10u64.pow(e))]) {
        prop_assert_eq!(Duration::from_nanos(n).to_string().parse(), Ok(Duration::from_nanos(n)));
        prop_assert_eq!(Instant::from_nanos(n).to_string().parse(), Ok(Instant::from_nanos(n)));
        prop_assert_eq!(Bytes(n).to_string().parse(), Ok(Bytes(n)));
        prop_assert_eq!(BitRate(n).to_string().parse(), Ok(BitRate(n)));
    }

    #[test]
    fn a_probability_parses_back_from_its_own_text(p in prop_oneof![0.0f64..=1.0, (0u32..=10_000).prop_map(|n| f64::from(n) / 1e4)]) {
        let p = Probability::new(p).unwrap();
        prop_assert_eq!(p.to_string().parse(), Ok(p));
    }

    #[test]
    fn parsing_any_text_returns_a_value_or_an_error(text in "\\PC{0,20}") {
        let _ = (text.parse::<Duration>(), text.parse::<Bytes>(), text.parse::<BitRate>(), text.parse::<Probability>());
    }
}
