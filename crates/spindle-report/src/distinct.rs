//! Distinct looks for the lines of one figure.
//!
//! Every name has a look of its own, but there are more names than looks. Where two lines of a figure would look alike,
//! the later one gets another look.

use std::collections::BTreeMap;

use super::palette::{DASHES, FAMILIES, Look, MARKERS, Marker, chosen, is_preset, look};

/// The look of each name in a figure with all of them, as a name for [`look`]: the name itself if it keeps its own look.
///
/// No two lines have the same colour, and no two have the same marker and dash, as long as there are enough of them: twice
/// as many colours as families, and [`MARKERS`] times [`DASHES`]. Names of presets choose first, then the others, each
/// in the given order.
pub(crate) fn distinct<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, String> {
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_by_key(|name| !is_preset(name));
    let mut taken = Taken::default();
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    for name in &names {
        let own = look(name);
        if !all.contains_key(*name) && taken.is_free(&own) {
            taken.add(own);
            all.insert((*name).to_owned(), (*name).to_owned());
        }
    }
    for name in names {
        if !all.contains_key(name) {
            let other = taken.nearest(&look(name));
            all.insert(name.to_owned(), chosen(&other));
            taken.add(other);
        }
    }
    all
}

/// The looks that lines of a figure have so far.
#[derive(Default)]
struct Taken(Vec<Look>);

impl Taken {
    fn add(&mut self, look: Look) {
        self.0.push(look);
    }

    fn is_free(&self, look: &Look) -> bool {
        self.colour_is_free(&look.light) && self.shape_is_free(look.marker, look.dash)
    }

    fn colour_is_free(&self, light: &str) -> bool {
        self.0.iter().all(|l| l.light != light)
    }

    fn shape_is_free(&self, marker: Marker, dash: &str) -> bool {
        let same = |l: &Look| l.marker == marker && l.dash == dash;
        !self.0.iter().any(same)
    }

    /// A free look: with the colour of `own` if no line has it, and with the marker that the fewest lines have.
    fn nearest(&self, own: &Look) -> Look {
        let mut other = own.clone();
        if !self.colour_is_free(&own.light) {
            let pale = FAMILIES.iter().map(|f| f.colours(0.45));
            let mut colours = FAMILIES.iter().map(|f| f.colours(0.0)).chain(pale);
            if let Some((light, dark)) = colours.find(|(light, _)| self.colour_is_free(light)) {
                (other.light, other.dark) = (light, dark);
            }
        }
        let uses = |m: Marker| self.0.iter().filter(|l| l.marker == m).count();
        let shapes = DASHES.iter().flat_map(|d| MARKERS.map(|m| (m, *d)));
        let free = shapes.filter(|(m, d)| self.shape_is_free(*m, d));
        if let Some((marker, dash)) = free.min_by_key(|(m, _)| uses(*m)) {
            (other.marker, other.dash) = (marker, dash);
        }
        other
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use spindle_experiment::registry::Registry;
    use spindle_experiment::{Overrides, Scale, library};

    use super::*;

    /// Fails if two lines look alike.
    fn check(id: &str, names: &[String]) {
        let looks = distinct(names.iter().map(String::as_str));
        assert_eq!(looks.len(), names.len(), "{id}");
        let of: Vec<Look> = names.iter().map(|n| look(&looks[n])).collect();
        let light: BTreeSet<&str> = of.iter().map(|l| l.light.as_str()).collect();
        let dark: BTreeSet<&str> = of.iter().map(|l| l.dark.as_str()).collect();
        let shapes: BTreeSet<(&str, String)> = of
            .iter()
            .map(|l| (l.dash, format!("{:?}", l.marker)))
            .collect();
        let classes: BTreeSet<&str> = of.iter().map(|l| l.class.as_str()).collect();
        for (what, count) in [
            ("colours", light.len()),
            ("colours on a dark page", dark.len()),
            ("markers and dashes", shapes.len()),
            ("classes", classes.len()),
        ] {
            assert_eq!(count, names.len(), "{id}: {what} of {of:#?}");
        }
    }

    #[test]
    fn transports_of_every_experiment_have_different_colours_and_markers_or_dashes() {
        let registry = Registry::standard();
        for file in library::EXPERIMENTS {
            for scale in Scale::ALL {
                let overrides = Overrides {
                    scale: Some(scale),
                    ..Overrides::default()
                };
                let e = file.read(&registry, &overrides).unwrap();
                let names: Vec<String> = e.transports.iter().map(ToString::to_string).collect();
                check(file.id, &names);
            }
        }
    }

    #[test]
    fn lines_that_looked_alike_in_a_figure_of_cofuso_do_not() {
        let names = ["fuso-5", "mptcp-5", "oracle-5", "corrective", "reactive"];
        assert_eq!(look("corrective").light, look("reactive").light);
        let looks = distinct(names);
        let of = |name: &str| look(&looks[name]);
        assert_eq!(of("corrective"), look("corrective"));
        assert_ne!(of("reactive").light, of("corrective").light);
        assert_ne!(of("reactive").marker, of("corrective").marker);
        let markers: BTreeSet<String> = names[..3]
            .iter()
            .map(|n| format!("{:?}", of(n).marker))
            .collect();
        assert_eq!(markers.len(), 3, "{markers:?}");
    }

    #[test]
    fn names_without_a_conflict_keep_their_looks() {
        for (name, of) in distinct(["tcp", "tlp", "mptcp", "fuso", "oracle"]) {
            assert_eq!(name, of);
        }
    }

    #[test]
    fn looks_do_not_depend_on_a_name_that_is_given_twice() {
        let names = ["tcp", "tcp@rps", "tcp", "reactive"];
        let once = ["tcp", "tcp@rps", "reactive"];
        assert_eq!(distinct(names), distinct(once));
    }

    #[test]
    fn more_lines_than_looks_are_still_drawn() {
        let names: Vec<String> = (0..80).map(|i| format!("mine-{i}x")).collect();
        assert_eq!(distinct(names.iter().map(String::as_str)).len(), 80);
    }
}
