//! What applications say about the messages that flows carry.

use spindle_units::Duration;

use super::Result;
use crate::document::Section;

/// The hints that the sender of a flow's data gives to its transport. They change nothing by themselves; recovery
/// policies may use them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessagePlan {
    /// When all data of a flow must have arrived, from the time of its request, or of its write for transfers. A
    /// flow that takes longer has missed its deadline. `None` if there is no deadline.
    pub deadline: Option<Duration>,
    /// How urgent the data are; 0 is ordinary.
    pub priority: u8,
}

/// `deadline`, a time, and `priority`, a number up to 255.
pub(super) fn message(s: &Section<'_>) -> Result<Option<MessagePlan>> {
    let deadline: Option<Duration> = s.get("deadline")?;
    if deadline == Some(Duration::ZERO) {
        return Err(s.error("deadline", "found 0, want more"));
    }
    let priority: u64 = s.or("priority", 0)?;
    let Ok(priority) = u8::try_from(priority) else {
        let problem = format!("found {priority}, want a number from 0 to 255");
        return Err(s.error("priority", problem));
    };
    let plan = MessagePlan { deadline, priority };
    Ok((plan != MessagePlan::default()).then_some(plan))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Overrides;
    use crate::library;
    use crate::registry::Registry;
    use crate::traffic::{Requests, Transfers};

    /// The traffic of a file with these keys, or the error about them.
    fn read<T: Clone + 'static>(kind: &str, keys: &str) -> std::result::Result<T, String> {
        let text = format!(
            "transports = [\"tcp\"]\ntopology = {{ name = \"fuso-testbed\" }}\n[traffic]\n{kind}\n{keys}"
        );
        let file = ("f.toml", text.as_str());
        let here = std::path::Path::new(".");
        let e = library::parse(&Registry::standard(), file, here, &Overrides::default())
            .map_err(|e| e.to_string())?;
        let traffic: &dyn std::any::Any = &*e.points[0].scenario.traffic;
        Ok(traffic.downcast_ref::<T>().expect("this kind").clone())
    }

    const REQUESTS: &str =
        "kind = \"requests\"\nclients = [\"H1\"]\nservers = [\"H4\"]\nsizes = \"10KB\"";
    const TRANSFERS: &str = "kind = \"transfers\"\nsizes = \"70KB\"\nduration = \"1s\"";

    #[test]
    fn deadline_and_priority_of_requests_and_transfers_are_read() {
        let keys = "deadline = \"50ms\"\npriority = 2";
        let expected = Some(MessagePlan {
            deadline: Some(Duration::from_millis(50)),
            priority: 2,
        });
        let requests = |keys| read::<Requests>(REQUESTS, keys).map(|r| r.message);
        let transfers = |keys| read::<Transfers>(TRANSFERS, keys).map(|t| t.message);
        assert_eq!(requests(keys), Ok(expected));
        assert_eq!(transfers(keys), Ok(expected));
        assert_eq!((requests(""), transfers("")), (Ok(None), Ok(None)));
    }

    #[test]
    fn deadline_of_zero_and_priority_above_255_are_refused() {
        for (keys, key, want) in [
            ("deadline = \"0s\"", "traffic.deadline", "want more"),
            ("priority = 256", "traffic.priority", "from 0 to 255"),
        ] {
            let error = read::<Requests>(REQUESTS, keys).expect_err(keys);
            assert!(error.contains(key) && error.contains(want), "{error}");
        }
    }
}
