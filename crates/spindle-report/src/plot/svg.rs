//! Writes SVG elements. Every text is escaped and every number is finite.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use spindle_experiment::Limit;

use super::super::palette::{Look, Marker, look, style_rules};

/// The colours and strokes of the pictures. The page contains them once. A standalone file contains its own
/// copy.
pub(crate) const STYLE: &str = include_str!("../assets/picture.css");

/// Half the size of the mark of a number that the paper prints, in user units.
pub(crate) const PAPER_RADIUS: f64 = 6.5;

/// Escapes text for XML content and attribute values. Characters that XML 1.0 forbids become U+FFFD.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A coordinate with at most two decimals. A value that is not finite becomes zero.
pub(crate) fn number(v: f64) -> String {
    let v = if v.is_finite() {
        v.clamp(-1e7, 1e7)
    } else {
        0.0
    };
    let text = format!("{v:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

/// A picture, while it is drawn and when it is complete.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    width: f64,
    height: f64,
    title: String,
    body: String,
    data: String,
    transports: BTreeSet<String>,
}

impl Picture {
    /// An empty picture. A screen reader reads out `title`.
    pub(crate) fn new(width: f64, height: f64, title: &str) -> Self {
        Self {
            width,
            height,
            title: title.to_owned(),
            body: String::new(),
            data: String::new(),
            transports: BTreeSet::new(),
        }
    }

    /// Sets the height once it is known.
    pub(crate) fn set_height(&mut self, height: f64) {
        self.height = height;
    }

    /// A number for the page's script, as the attribute `data-name` of the `svg` element.
    pub(crate) fn data(&mut self, name: &str, value: f64) {
        let value = if value.is_finite() { value } else { 0.0 };
        let _ = write!(self.data, " data-{name}=\"{value}\"");
    }

    /// The look of a transport. The picture will then define its colours.
    pub(crate) fn look(&mut self, transport: &str) -> Look {
        self.transports.insert(transport.to_owned());
        look(transport)
    }

    /// The transports whose colours are used.
    pub(crate) fn transports(&self) -> impl Iterator<Item = &str> {
        self.transports.iter().map(String::as_str)
    }

    /// Starts an element; finish it with one of [`Element`]'s last methods.
    pub(crate) fn el<'a>(&'a mut self, tag: &'static str) -> Element<'a> {
        self.body.push('<');
        self.body.push_str(tag);
        Element { picture: self, tag }
    }

    /// Closes an element that [`Element::open`] left open.
    pub(crate) fn close(&mut self, tag: &str) {
        let _ = write!(self.body, "</{tag}>");
    }

    /// Makes the elements that follow, up to [`Self::close_link`], a link, if `href` is given. The keyboard
    /// skips these links, since a table next to each picture contains all of them.
    pub(crate) fn open_link(&mut self, href: Option<&str>) {
        if let Some(href) = href {
            self.el("a").a("href", href).a("tabindex", "-1").open();
        }
    }

    /// Ends a link that [`Self::open_link`] began with the same `href`.
    pub(crate) fn close_link(&mut self, href: Option<&str>) {
        if href.is_some() {
            self.close("a");
        }
    }

    /// A straight line.
    pub(crate) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.el("line")
            .a("class", class)
            .n("x1", x1)
            .n("y1", y1)
            .n("x2", x2)
            .n("y2", y2)
            .end();
    }

    /// A line of text; `anchor` is `start`, `middle` or `end`.
    pub(crate) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: &str, text: &str) {
        self.el("text")
            .a("class", class)
            .n("x", x)
            .n("y", y)
            .a("text-anchor", anchor)
            .text(text);
    }

    /// A rectangle, as an element still open for attributes.
    pub(crate) fn rect<'a>(
        &'a mut self,
        class: &str,
        (x, y): (f64, f64),
        (w, h): (f64, f64),
    ) -> Element<'a> {
        let e = self.el("rect").a("class", class).n("x", x).n("y", y);
        e.n("width", w.max(0.0)).n("height", h.max(0.0))
    }

    /// A transport's marker centred on a point, as an element still open for attributes.
    pub(crate) fn marker<'a>(&'a mut self, look: &Look, (x, y): (f64, f64), r: f64) -> Element<'a> {
        let class = match look.marker {
            Marker::Ring => "ring",
            _ => "dot",
        };
        self.shape(class, &look.class, look.marker, (x, y), r)
    }

    /// The shape of a marker with the class `kind` and the class of a transport's colours.
    fn shape<'a>(
        &'a mut self,
        kind: &str,
        colours: &str,
        marker: Marker,
        (x, y): (f64, f64),
        r: f64,
    ) -> Element<'a> {
        let class = format!("{kind} {colours}");
        let points: &[(f64, f64)] = match marker {
            Marker::Circle | Marker::Ring => {
                return self
                    .el("circle")
                    .a("class", &class)
                    .n("cx", x)
                    .n("cy", y)
                    .n("r", r);
            }
            Marker::Square => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            Marker::Diamond => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
            Marker::Triangle => &[(0.0, -1.2), (1.15, 0.9), (-1.15, 0.9)],
            Marker::Wedge => &[(0.0, 1.2), (1.15, -0.9), (-1.15, -0.9)],
        };
        let corners: Vec<(f64, f64)> = points
            .iter()
            .map(|(px, py)| (x + px * r, y + py * r))
            .collect();
        self.polygon(&class, &corners)
    }

    /// The mark of a number that the paper prints, in a line's colour and shape, as an element still open for
    /// attributes. It is hollow and larger than the mark of a measured value, so that both are visible at the same
    /// place. The mark of a limit points to the side on which the metric stays.
    pub(crate) fn paper_marker<'a>(
        &'a mut self,
        look: &Look,
        limit: Option<Limit>,
        at: (f64, f64),
    ) -> Element<'a> {
        let marker = match limit {
            Some(Limit::Below) => Marker::Wedge,
            Some(Limit::Above) => Marker::Triangle,
            None if look.marker == Marker::Ring => Marker::Circle,
            None => look.marker,
        };
        self.shape("printed", &look.class, marker, at, PAPER_RADIUS)
    }

    /// A polygon, as an element still open for attributes.
    pub(crate) fn polygon<'a>(&'a mut self, class: &str, corners: &[(f64, f64)]) -> Element<'a> {
        let at: Vec<String> = corners
            .iter()
            .map(|(x, y)| format!("{},{}", number(*x), number(*y)))
            .collect();
        self.el("polygon")
            .a("class", class)
            .a("points", &at.join(" "))
    }

    /// The picture as part of a page that already contains [`STYLE`] and the transports' colours. `class` is
    /// added to the `svg` element. If the picture is one of several views, `axis` is the view's name. A `hidden`
    /// view is not shown until a reader chooses it.
    pub(crate) fn inline(&self, class: &str, axis: Option<&str>, hidden: bool) -> String {
        let axis = axis.map_or_else(String::new, |name| {
            format!(" data-axis=\"{}\"", escape(name))
        });
        let hidden = if hidden { " hidden=\"hidden\"" } else { "" };
        self.wrap(class, &format!("{axis}{hidden}"), "")
    }

    /// The picture as a standalone file.
    pub(crate) fn standalone(&self) -> String {
        let theme = include_str!("../assets/theme.css");
        let rules = style_rules(self.transports());
        let style = format!("<style>{theme}{STYLE}{rules}</style>");
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n",
            self.wrap("alone", "", &style)
        )
    }

    fn wrap(&self, class: &str, attributes: &str, style: &str) -> String {
        let (w, h, title) = (number(self.width), number(self.height), escape(&self.title));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"picture {}\"{}{attributes} \
             viewBox=\"0 0 {w} {h}\" role=\"img\" aria-label=\"{title}\">{style}\
             <rect class=\"paper\" x=\"0\" y=\"0\" width=\"{w}\" height=\"{h}\"/>{}</svg>",
            escape(class),
            self.data,
            self.body
        )
    }
}

/// An element whose attributes are being written.
pub(crate) struct Element<'a> {
    picture: &'a mut Picture,
    tag: &'static str,
}

impl Element<'_> {
    /// An attribute with a text value.
    pub(crate) fn a(self, name: &str, value: &str) -> Self {
        let _ = write!(self.picture.body, " {name}=\"{}\"", escape(value));
        self
    }

    /// An attribute with a number.
    pub(crate) fn n(self, name: &str, value: f64) -> Self {
        let _ = write!(self.picture.body, " {name}=\"{}\"", number(value));
        self
    }

    /// Ends the element empty.
    pub(crate) fn end(self) {
        self.picture.body.push_str("/>");
    }

    /// Ends the element with a tooltip.
    pub(crate) fn tip(self, text: &str) {
        let tag = self.tag;
        let _ = write!(
            self.picture.body,
            "><title>{}</title></{tag}>",
            escape(text)
        );
    }

    /// Ends the element with a text as its content.
    pub(crate) fn text(self, text: &str) {
        let tag = self.tag;
        let _ = write!(self.picture.body, ">{}</{tag}>", escape(text));
    }

    /// Leaves the element open for children.
    pub(crate) fn open(self) {
        self.picture.body.push('>');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_finite() {
        assert_eq!(number(1.0), "1");
        assert_eq!(number(-0.001), "0");
        assert_eq!(number(12.345), "12.35");
        assert_eq!(number(f64::NAN), "0");
        assert_eq!(number(f64::INFINITY), "0");
        assert_eq!(number(1e300), "10000000");
    }

    #[test]
    fn a_standalone_picture_is_well_formed_with_hostile_names() {
        let hostile = "<a href='x'>&\"\u{0}\u{1b}]]>";
        let mut p = Picture::new(10.0, 10.0, hostile);
        let l = p.look(hostile);
        p.marker(&l, (1.0, 2.0), 3.0).tip(hostile);
        p.text("label", (0.0, 0.0), "start", hostile);
        let svg = p.standalone();
        let doc = roxmltree::Document::parse(&svg).unwrap();
        let root = doc.root_element();
        assert_eq!(
            root.attribute("aria-label"),
            Some("<a href='x'>&\"\u{fffd}\u{fffd}]]>")
        );
    }
}
