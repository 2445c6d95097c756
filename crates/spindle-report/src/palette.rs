//! A fixed look for each transport name: the same colour, dash and marker on every page.
//!
//! Colours are distinguishable under the common colour-vision deficiencies by hue and lightness together (after
//! Okabe and Ito, "Color Universal Design", darkened for text contrast on a light page and lightened for a dark
//! one). Dash and marker distinguish the remaining transports, also in print.

/// A colour as red, green and blue.
type Rgb = [u8; 3];

/// All markers.
pub(crate) const MARKERS: [Marker; 6] = [
    Marker::Circle,
    Marker::Square,
    Marker::Diamond,
    Marker::Triangle,
    Marker::Wedge,
    Marker::Ring,
];

/// The shape that marks a measured point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// A filled circle.
    Circle,
    /// A filled square.
    Square,
    /// A square on its corner.
    Diamond,
    /// A triangle, point up.
    Triangle,
    /// A triangle, point down.
    Wedge,
    /// An open circle.
    Ring,
}

/// How a transport is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The CSS class that carries the colours.
    pub class: String,
    /// The colour on a light page, `#rrggbb`.
    pub light: String,
    /// The colour on a dark page, `#rrggbb`.
    pub dark: String,
    /// The SVG dash array, empty for a solid line.
    pub dash: &'static str,
    /// The marker of its points.
    pub marker: Marker,
}

/// A family of schemes: its colours on a light and on a dark page, and its marker.
pub(crate) struct Family {
    light: Rgb,
    dark: Rgb,
    marker: Marker,
}

impl Family {
    /// The colours on a light and on a dark page, paler by `fade`, 0 to [`PALEST`].
    pub(crate) fn colours(&self, fade: f64) -> (String, String) {
        let pale = |from, to, ground| hex(mix(from, to, visible(from, to, ground, fade)));
        let light = pale(self.light, [255; 3], GROUNDS[0]);
        (light, pale(self.dark, [16; 3], GROUNDS[1]))
    }
}

/// The palest colours of a family.
const PALEST: f64 = 0.55;
/// Light and dark pages (theme.css, `--paper`).
const GROUNDS: [Rgb; 2] = [rgb(0xfc_fc_fa), rgb(0x15_18_1c)];
/// The least contrast of a graphical object with what is next to it (WCAG 2.2, success criterion 1.4.11).
const LEAST_CONTRAST: f64 = 3.0;

/// The share by which a colour is mixed with another one, so that even the palest is visible on its ground and different
/// shares stay different.
fn visible(from: Rgb, to: Rgb, ground: Rgb, fade: f64) -> f64 {
    let seen = |percent: &u8| {
        let mixed = mix(from, to, f64::from(*percent) / 100.0);
        contrast(mixed, ground) >= LEAST_CONTRAST
    };
    let most = (0..=(PALEST * 100.0) as u8).take_while(seen).last();
    fade / PALEST * f64::from(most.unwrap_or(0)) / 100.0
}

/// The contrast of two colours, 1 to 21 (WCAG 2.2, contrast ratio and relative luminance).
fn contrast(a: Rgb, b: Rgb) -> f64 {
    let linear = |c: u8| match f64::from(c) / 255.0 {
        c if c <= 0.04045 => c / 12.92,
        c => ((c + 0.055) / 1.055).powf(2.4),
    };
    let luminance = |[r, g, b]: Rgb| 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
    a.max(b) / a.min(b)
}

const fn family(light: u32, dark: u32, marker: Marker) -> Family {
    Family {
        light: rgb(light),
        dark: rgb(dark),
        marker,
    }
}

const fn rgb(hex: u32) -> Rgb {
    [(hex >> 16) as u8, (hex >> 8) as u8, hex as u8]
}

pub(crate) const FAMILIES: [Family; 13] = [
    family(0x55_5f_6e, 0xa9_b4_c4, Marker::Square), // tcp
    family(0x2f_94_cf, 0x7c_c8_f5, Marker::Triangle), // tlp
    family(0xb8_7b_00, 0xf2_b8_2e, Marker::Wedge),  // repflow
    family(0xcf_47_0e, 0xff_82_4d, Marker::Diamond), // mptcp
    family(0x00_5f_a8, 0x4c_a0_f2, Marker::Circle), // fuso
    family(0x00_80_5c, 0x2c_c6_98, Marker::Circle), // cofuso
    family(0xa8_45_7f, 0xe7_90_bf, Marker::Diamond), // mmptcp
    family(0x5a_3f_a6, 0xa8_95_f2, Marker::Triangle), // caps
    family(0x80_4e_20, 0xcc_97_66, Marker::Wedge),  // proactive
    family(0x6b_76_00, 0xb8_c6_4a, Marker::Ring),   // tcp-ir, corrective, reactive
    family(0x00_7f_8a, 0x43_c3_cf, Marker::Square), // packet spraying transports
    family(0xc2_18_3c, 0xff_7a_8c, Marker::Square), // spindle
    family(0x11_14_18, 0xf2_f4_f7, Marker::Ring),   // oracle
];

pub(crate) const DASHES: [&str; 5] = ["", "7 3", "2 3", "9 3 2 3", "5 2"];

/// Families for lines that are not transports. The families that are easiest to distinguish come first.
const SERIES: [usize; 6] = [4, 3, 5, 7, 2, 0];

/// The family and dash of a preset name. `None` for a name that Spindle does not ship.
fn known(name: &str) -> Option<(usize, usize)> {
    Some(match name {
        "tcp" => (0, 0),
        "newreno" => (0, 2),
        "dctcp" => (0, 1),
        "tlp" => (1, 0),
        "rack" => (1, 1),
        "tlt" => (1, 3),
        "repflow" => (2, 0),
        "mptcp" => (3, 0),
        "mptcp-linux" => (3, 1),
        "deadline-reinjection" => (3, 3),
        "fuso" => (4, 0),
        "cofuso" => (5, 0),
        "cofuso-xor" => (5, 1),
        "cofuso-fixed" => (5, 3),
        "cofuso+parities" => (5, 0),
        "mmptcp" => (6, 0),
        "mmptcp-lt" => (6, 1),
        "mmptcp-as" => (6, 2),
        "mmptcp-fc" => (6, 3),
        "mmptcp-uc" => (6, 4),
        "caps" => (7, 0),
        "caps-dark" => (7, 1),
        "proactive" => (8, 0),
        "tcp-ir" => (9, 0),
        "corrective" => (9, 1),
        "reactive" => (9, 3),
        "ps" => (10, 0),
        "ps-tcp" => (10, 1),
        "mptcp-tcp" => (10, 3),
        "spindle" => (11, 0),
        "oracle" => (12, 2),
        _ => {
            let number = name.strip_prefix("series#")?.parse::<usize>().ok()?;
            (SERIES[number % SERIES.len()], 0)
        }
    })
}

/// Whether Spindle ships a preset of that name, without a balancer.
pub(crate) fn is_preset(name: &str) -> bool {
    known(name).is_some()
}

/// The start of a name that states a look.
const CHOSEN: &str = "look#";

/// A name for [`look`] that states the look itself: `look#LIGHT/DARK/DASH/MARKER`, with the indices of dash and marker.
pub(crate) fn chosen(look: &Look) -> String {
    let dash = DASHES.iter().position(|d| *d == look.dash).unwrap_or(0);
    let marker = MARKERS.iter().position(|m| *m == look.marker).unwrap_or(0);
    let (light, dark) = (&look.light[1..], &look.dark[1..]);
    format!("{CHOSEN}{light}/{dark}/{dash}/{marker}")
}

/// The look that a name of [`chosen`] states.
fn stated(name: &str) -> Option<Look> {
    let mut parts = name.strip_prefix(CHOSEN)?.split('/');
    let colour = |part: &str| u32::from_str_radix(part, 16).ok().map(|c| hex(rgb(c)));
    let light = parts.next().and_then(colour)?;
    let dark = parts.next().and_then(colour)?;
    let dash = *DASHES.get(parts.next()?.parse::<usize>().ok()?)?;
    let marker = *MARKERS.get(parts.next()?.parse::<usize>().ok()?)?;
    Some(Look {
        class: class_name(name, fnv(name)),
        light,
        dark,
        dash,
        marker,
    })
}

/// The look of a transport, of a pair `transport@balancer`, or of any other name.
pub fn look(name: &str) -> Look {
    if let Some(look) = stated(name) {
        return look;
    }
    let (base, balancer) = name.split_once('@').unwrap_or((name, ""));
    let (stem, fade) = subflow_count(base);
    let hash = fnv(name);
    let (index, mut dash) = known(base).or_else(|| known(stem)).unwrap_or_else(|| {
        let hash = fnv(base) as usize;
        (
            hash % (FAMILIES.len() - 1),
            1 + (hash >> 8) % (DASHES.len() - 1),
        )
    });
    if fade > 0.05 {
        dash = 1 + (fade * 10.0) as usize % (DASHES.len() - 1);
    }
    if !balancer.is_empty() {
        dash = (dash + 1 + fnv(balancer) as usize % (DASHES.len() - 1)) % DASHES.len();
    }
    let family = &FAMILIES[index];
    let (light, dark) = family.colours(fade);
    Look {
        class: class_name(name, hash),
        light,
        dark,
        dash: DASHES[dash],
        marker: variant(family.marker, fade),
    }
}

/// Splits `fuso-4` into its scheme and the degree to which its colour fades. Fewer subflows, or a lower coding
/// rate, have a paler colour.
fn subflow_count(base: &str) -> (&str, f64) {
    let split = base
        .rsplit_once('-')
        .and_then(|(stem, n)| Some((stem, n.parse::<u32>().ok()?)));
    match split {
        // The number is a rate in percent, at most 32.
        Some((stem @ "cofuso-fixed", n @ 1..=32)) => {
            (stem, PALEST * (1.0 - f64::from(n).log2() / 5.0))
        }
        Some((stem, n @ 1..=8)) if known(base).is_none() => {
            (stem, PALEST * (1.0 - f64::from(n).log2() / 3.0))
        }
        _ => (base, 0.0),
    }
}

/// Paler members of a family also get another marker.
fn variant(marker: Marker, fade: f64) -> Marker {
    match (fade * 10.0) as u32 {
        0 => marker,
        1 => Marker::Square,
        2 | 3 => Marker::Wedge,
        _ => Marker::Ring,
    }
}

fn mix(from: Rgb, to: Rgb, share: f64) -> Rgb {
    let part = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * share).round() as u8;
    [
        part(from[0], to[0]),
        part(from[1], to[1]),
        part(from[2], to[2]),
    ]
}

fn hex([r, g, b]: Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// A class name that no other transport name has, made only of safe characters.
fn class_name(name: &str, hash: u64) -> String {
    let safe: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(24)
        .collect();
    format!("t-{safe}-{:06x}", hash & 0xff_ffff)
}

/// FNV-1a: a hash that is the same in every version and on every machine.
fn fnv(text: &str) -> u64 {
    let step = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The style rules that give each class its colour `--c`, on a light and on a dark page.
pub(crate) fn style_rules<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let looks: Vec<Look> = names.into_iter().map(look).collect();
    let mut light = String::new();
    let mut dark = String::new();
    for l in &looks {
        light += &format!(".{}{{--c:{}}}", l.class, l.light);
        dark += &format!(".{}{{--c:{}}}", l.class, l.dark);
    }
    format!("{light}@media(prefers-color-scheme:dark){{{dark}}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn schemes_of_the_papers_look_different() {
        let names = [
            "tcp", "tlp", "repflow", "mptcp", "fuso", "cofuso", "mmptcp", "caps", "oracle",
        ];
        let colours: HashSet<_> = names.iter().map(|n| look(n).light).collect();
        assert_eq!(colours.len(), names.len());
    }

    #[test]
    fn numbers_of_subflows_have_different_colours() {
        let looks: HashSet<_> = ["fuso-1", "fuso-2", "fuso-4", "fuso-8"]
            .map(|n| look(n).light)
            .into();
        assert_eq!(looks.len(), 4);
        assert_eq!(look("fuso-8").light, look("fuso").light);
    }

    #[test]
    fn palest_colours_are_visible_on_light_and_dark_pages() {
        for family in &FAMILIES {
            for fade in [0.0, 0.2, 0.45, PALEST] {
                let (light, dark) = family.colours(fade);
                for (colour, ground) in [light, dark].iter().zip(GROUNDS) {
                    let value = u32::from_str_radix(&colour[1..], 16).unwrap();
                    let found = contrast(rgb(value), ground);
                    assert!(found >= LEAST_CONTRAST, "{colour} at {fade}: {found}");
                }
            }
        }
        assert!((contrast([0; 3], [255; 3]) - 21.0).abs() < 1e-9);
    }

    #[test]
    fn a_look_is_stable_and_a_balancer_keeps_the_colour() {
        assert_eq!(look("my-policy"), look("my-policy"));
        assert_eq!(look("tcp@rps-pq").light, look("tcp").light);
        assert_ne!(look("tcp@rps").dash, look("tcp").dash);
    }

    #[test]
    fn numbered_series_have_different_colours() {
        let looks: HashSet<_> = (0..6).map(|i| look(&format!("series#{i}")).light).collect();
        assert_eq!(looks.len(), 6);
    }

    #[test]
    fn name_of_a_chosen_look_gives_that_look() {
        let own = look("fuso-4");
        let stated = look(&chosen(&own));
        assert_eq!((&stated.light, &stated.dark), (&own.light, &own.dark));
        assert_eq!((stated.dash, stated.marker), (own.dash, own.marker));
        let wrong = look("look#00/zz/9/9");
        assert_eq!(wrong, look("look#00/zz/9/9"));
    }

    #[test]
    fn a_hostile_name_makes_a_safe_class() {
        let l = look("}</style><script>alert(1)</script>\"'&");
        assert!(
            l.class
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-'),
            "{}",
            l.class
        );
    }
}
