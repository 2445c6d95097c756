//! The experiments that come with Spindle. They are built in, so that an installed binary has them. This module
//! also reads experiment files and finds experiments by name.

use std::path::Path;

pub use crate::document::UnknownName;
use crate::document::{ExperimentError, suggestion};
use crate::file::{Context, Experiment, Overrides};
use crate::registry::Registry;

/// An experiment that comes with Spindle.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// The experiment's id, as in the file.
    pub id: &'static str,
    /// The paper that the experiment belongs to. `None` if it does not reproduce a paper.
    pub paper: Option<&'static str>,
    /// The file's path in the source tree.
    pub path: &'static str,
    /// The file's text.
    pub text: &'static str,
}

/// A paper whose evaluation is reproduced.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Its short name, as in [`BuiltIn::paper`].
    pub id: &'static str,
    /// The paper's name and title.
    pub title: &'static str,
    /// The authors and the publication. For a joint table, its subject.
    pub citation: &'static str,
    /// Whether the experiments are scenarios of one joint table. Such experiments do not reproduce figures and
    /// do not check claims.
    pub joint: bool,
}

/// All papers.
pub const PAPERS: &[Paper] = &[
    Paper {
        id: "fuso",
        title: "FUSO: Fast and Cautious",
        citation: "G. Chen, Y. Lu, Y. Meng, B. Li, K. Tan, D. Pei, P. Cheng, L. Luo, Y. Xiong, X. \
                   Wang and Y. Zhao: Fast and Cautious: Leveraging Multi-path Diversity for \
                   Transport Loss Recovery in Data Centers. USENIX Annual Technical Conference, \
                   2016.",
        joint: false,
    },
    Paper {
        id: "cofuso",
        title: "CoFUSO: Coding-Based Fast Multi-Path Loss Recovery",
        citation: "Y. Liu, G. Zhou and G. Chen: Reducing web latency with coding-based fast \
                   multi-path loss recovery. Wireless Networks, 2020.",
        joint: false,
    },
    Paper {
        id: "mmptcp",
        title: "MMPTCP: Scatter, then multipath",
        citation: "M. Kheirkhah, I. Wakeman and G. Parisis: Multipath transport and packet \
                   spraying for efficient data delivery in data centres. Computer Networks, 2019.",
        joint: false,
    },
    Paper {
        id: "caps",
        title: "CAPS: Coding-based Adaptive Packet Spraying",
        citation: "J. Hu, J. Huang, W. Lv, Y. Zhou, J. Wang and T. He: CAPS: Coding-Based Adaptive \
                   Packet Spraying to Reduce Flow Completion Time in Data Center. IEEE/ACM \
                   Transactions on Networking, 2019.",
        joint: false,
    },
    Paper {
        id: "others",
        title: "Other schemes: what their publications claim",
        citation: "Schedulers, recovery, path choice at hosts and switches, queues and links that the four papers do \
                   not have, each with two or three statements of its own publication.",
        joint: false,
    },
    Paper {
        id: "arena",
        title: "Arena: which transport for which network, and at what price",
        citation: "The transports of the papers, those in use today and newer ones in networks with losses, \
                   congestion, unequal paths, outages and incast, each with its price: extra bytes, \
                   long flows, bystanders and queues.",
        joint: true,
    },
];

/// Returns the paper with that short name.
pub fn paper(id: &str) -> Option<&'static Paper> {
    PAPERS.iter().find(|p| p.id == id)
}

macro_rules! built_in {
    ($id:literal, $paper:expr, $path:literal) => {
        BuiltIn {
            id: $id,
            paper: $paper,
            path: concat!("experiments/", $path),
            text: include_str!(concat!("../experiments/", $path)),
        }
    };
}

/// All built-in experiments.
pub const EXPERIMENTS: &[BuiltIn] = &[
    built_in!("compare", None, "compare.toml"),
    built_in!("fuso-fig1", Some("fuso"), "fuso/fig1.toml"),
    built_in!("fuso-fig2", Some("fuso"), "fuso/fig2.toml"),
    built_in!("fuso-fig4ab", Some("fuso"), "fuso/fig4ab.toml"),
    built_in!("fuso-fig4cd", Some("fuso"), "fuso/fig4cd.toml"),
    built_in!("fuso-fig5", Some("fuso"), "fuso/fig5.toml"),
    built_in!("fuso-fig6", Some("fuso"), "fuso/fig6.toml"),
    built_in!("fuso-fig7", Some("fuso"), "fuso/fig7.toml"),
    built_in!("fuso-fig8", Some("fuso"), "fuso/fig8.toml"),
    built_in!("fuso-text", Some("fuso"), "fuso/text.toml"),
    built_in!("cofuso-fig2", Some("cofuso"), "cofuso/fig2.toml"),
    built_in!("cofuso-fig3", Some("cofuso"), "cofuso/fig3.toml"),
    built_in!("cofuso-fig4", Some("cofuso"), "cofuso/fig4.toml"),
    built_in!("cofuso-fig5", Some("cofuso"), "cofuso/fig5.toml"),
    built_in!("cofuso-fig9a", Some("cofuso"), "cofuso/fig9a.toml"),
    built_in!("cofuso-fig9b", Some("cofuso"), "cofuso/fig9b.toml"),
    built_in!("cofuso-fig10", Some("cofuso"), "cofuso/fig10.toml"),
    built_in!("cofuso-fig11", Some("cofuso"), "cofuso/fig11.toml"),
    built_in!("cofuso-fig13", Some("cofuso"), "cofuso/fig13.toml"),
    built_in!("cofuso-fig14", Some("cofuso"), "cofuso/fig14.toml"),
    built_in!("cofuso-fig15", Some("cofuso"), "cofuso/fig15.toml"),
    built_in!("cofuso-fig16", Some("cofuso"), "cofuso/fig16.toml"),
    built_in!("cofuso-fig17", Some("cofuso"), "cofuso/fig17.toml"),
    built_in!("mmptcp-fig1", Some("mmptcp"), "mmptcp/fig1.toml"),
    built_in!("mmptcp-tab1", Some("mmptcp"), "mmptcp/tab1.toml"),
    built_in!("mmptcp-fig2", Some("mmptcp"), "mmptcp/fig2.toml"),
    built_in!("mmptcp-tab2", Some("mmptcp"), "mmptcp/tab2.toml"),
    built_in!("mmptcp-tab3", Some("mmptcp"), "mmptcp/tab3.toml"),
    built_in!("mmptcp-fig3", Some("mmptcp"), "mmptcp/fig3.toml"),
    built_in!("mmptcp-tab4", Some("mmptcp"), "mmptcp/tab4.toml"),
    built_in!("mmptcp-fig4", Some("mmptcp"), "mmptcp/fig4.toml"),
    built_in!("mmptcp-tab5", Some("mmptcp"), "mmptcp/tab5.toml"),
    built_in!("mmptcp-fig5", Some("mmptcp"), "mmptcp/fig5.toml"),
    built_in!("mmptcp-fig6", Some("mmptcp"), "mmptcp/fig6.toml"),
    built_in!("mmptcp-fig7", Some("mmptcp"), "mmptcp/fig7.toml"),
    built_in!("mmptcp-tab6", Some("mmptcp"), "mmptcp/tab6.toml"),
    built_in!("mmptcp-tab7", Some("mmptcp"), "mmptcp/tab7.toml"),
    built_in!("mmptcp-tab8", Some("mmptcp"), "mmptcp/tab8.toml"),
    built_in!("mmptcp-fig8", Some("mmptcp"), "mmptcp/fig8.toml"),
    built_in!("mmptcp-fig9", Some("mmptcp"), "mmptcp/fig9.toml"),
    built_in!("mmptcp-fig10", Some("mmptcp"), "mmptcp/fig10.toml"),
    built_in!("mmptcp-beyond", Some("mmptcp"), "mmptcp/beyond.toml"),
    built_in!("mmptcp-authors", Some("mmptcp"), "mmptcp/authors.toml"),
    built_in!("caps-fig1", Some("caps"), "caps/fig1.toml"),
    built_in!("caps-fig2", Some("caps"), "caps/fig2.toml"),
    built_in!("caps-fig4", Some("caps"), "caps/fig4.toml"),
    built_in!("caps-fig6", Some("caps"), "caps/fig6.toml"),
    built_in!("caps-fig6c", Some("caps"), "caps/fig6c.toml"),
    built_in!("caps-fig7-example", Some("caps"), "caps/fig7-example.toml"),
    built_in!("caps-fig8", Some("caps"), "caps/fig8.toml"),
    built_in!("caps-fig8cd", Some("caps"), "caps/fig8cd.toml"),
    built_in!("caps-fig9", Some("caps"), "caps/fig9.toml"),
    built_in!("caps-fig10", Some("caps"), "caps/fig10.toml"),
    built_in!("caps-fig11", Some("caps"), "caps/fig11.toml"),
    built_in!("caps-fig12", Some("caps"), "caps/fig12.toml"),
    built_in!("caps-fig13", Some("caps"), "caps/fig13.toml"),
    built_in!("caps-fig14", Some("caps"), "caps/fig14.toml"),
    built_in!("caps-fig15", Some("caps"), "caps/fig15.toml"),
    built_in!("caps-fig16", Some("caps"), "caps/fig16.toml"),
    built_in!("caps-fig17", Some("caps"), "caps/fig17.toml"),
    built_in!("caps-fig17-size", Some("caps"), "caps/fig17-size.toml"),
    built_in!("caps-fig18", Some("caps"), "caps/fig18.toml"),
    built_in!("caps-fig19", Some("caps"), "caps/fig19.toml"),
    built_in!("caps-fig20", Some("caps"), "caps/fig20.toml"),
    built_in!("caps-fig21", Some("caps"), "caps/fig21.toml"),
    built_in!("caps-fig22", Some("caps"), "caps/fig22.toml"),
    built_in!("caps-fig23", Some("caps"), "caps/fig23.toml"),
    built_in!("caps-fig24", Some("caps"), "caps/fig24.toml"),
    built_in!("caps-fig25", Some("caps"), "caps/fig25.toml"),
    built_in!("caps-fig26", Some("caps"), "caps/fig26.toml"),
    built_in!("caps-fig27", Some("caps"), "caps/fig27.toml"),
    built_in!("caps-fig28", Some("caps"), "caps/fig28.toml"),
    built_in!("caps-fig29", Some("caps"), "caps/fig29.toml"),
    built_in!("others-ecf", Some("others"), "others/ecf.toml"),
    built_in!("others-blest", Some("others"), "others/blest.toml"),
    built_in!("others-dems", Some("others"), "others/dems.toml"),
    built_in!("others-xlink", Some("others"), "others/xlink.toml"),
    built_in!("others-autorec", Some("others"), "others/autorec.toml"),
    built_in!("others-hairpin", Some("others"), "others/hairpin.toml"),
    built_in!(
        "others-cloudburst",
        Some("others"),
        "others/cloudburst.toml"
    ),
    built_in!("others-prr", Some("others"), "others/prr.toml"),
    built_in!("others-plb", Some("others"), "others/plb.toml"),
    built_in!(
        "others-flowbender",
        Some("others"),
        "others/flowbender.toml"
    ),
    built_in!("others-reps", Some("others"), "others/reps.toml"),
    built_in!("others-drill", Some("others"), "others/drill.toml"),
    built_in!("others-conga", Some("others"), "others/conga.toml"),
    built_in!("others-codel", Some("others"), "others/codel.toml"),
    built_in!("others-tlt", Some("others"), "others/tlt.toml"),
    built_in!(
        "others-linkguardian",
        Some("others"),
        "others/linkguardian.toml"
    ),
    built_in!("arena-random-loss", Some("arena"), "arena/random-loss.toml"),
    built_in!("arena-bursty-loss", Some("arena"), "arena/bursty-loss.toml"),
    built_in!(
        "arena-lossy-fat-tree",
        Some("arena"),
        "arena/lossy-fat-tree.toml"
    ),
    built_in!(
        "arena-broken-fat-tree",
        Some("arena"),
        "arena/broken-fat-tree.toml"
    ),
    built_in!("arena-leaf-spine", Some("arena"), "arena/leaf-spine.toml"),
    built_in!(
        "arena-leaf-spine-ecn",
        Some("arena"),
        "arena/leaf-spine-ecn.toml"
    ),
    built_in!("arena-slow-spine", Some("arena"), "arena/slow-spine.toml"),
    built_in!("arena-dying-link", Some("arena"), "arena/dying-link.toml"),
    built_in!("arena-incast", Some("arena"), "arena/incast.toml"),
    built_in!("arena-two-paths", Some("arena"), "arena/two-paths.toml"),
    built_in!(
        "arena-unequal-paths",
        Some("arena"),
        "arena/unequal-paths.toml"
    ),
    built_in!("arena-lte", Some("arena"), "arena/lte.toml"),
    built_in!("arena-leo", Some("arena"), "arena/leo.toml"),
    built_in!("arena-black-path", Some("arena"), "arena/black-path.toml"),
    built_in!("arena-bufferbloat", Some("arena"), "arena/bufferbloat.toml"),
    built_in!(
        "arena-shared-paths",
        Some("arena"),
        "arena/shared-paths.toml"
    ),
    built_in!("arena-deployment", Some("arena"), "arena/deployment.toml"),
];

/// Returns the experiment with that id.
pub fn find(id: &str) -> Option<&'static BuiltIn> {
    EXPERIMENTS.iter().find(|e| e.id == id)
}

/// Returns the experiments that reproduce a figure or table.
pub fn reproductions() -> impl Iterator<Item = &'static BuiltIn> {
    EXPERIMENTS.iter().filter(|e| e.paper.is_some())
}

/// Reads an experiment from `text`, using the names of a registry. Errors refer to the text as `name`. Files
/// that the experiment names are searched for in `directory`.
///
/// # Errors
/// The first mistake, in one line.
pub fn parse(
    registry: &Registry,
    (name, text): (&str, &str),
    directory: &Path,
    overrides: &Overrides,
) -> Result<Experiment, ExperimentError> {
    with_context(registry, directory, |c| {
        Experiment::parse(name, text, overrides, c)
    })
}

/// Reads an experiment from a file, using the names of a registry.
///
/// # Errors
/// The first mistake, in one line.
pub fn load(
    registry: &Registry,
    path: &Path,
    overrides: &Overrides,
) -> Result<Experiment, ExperimentError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    with_context(registry, directory, |c| {
        Experiment::load(path, overrides, c)
    })
}

fn with_context<T>(
    registry: &Registry,
    directory: &Path,
    read: impl FnOnce(&Context<'_>) -> T,
) -> T {
    let (transports, balancers) = (registry.transport_names(), registry.balancer_names());
    read(&Context {
        directory,
        transports: &transports,
        balancers: &balancers,
        registry,
    })
}

impl BuiltIn {
    /// Reads the experiment.
    ///
    /// # Errors
    /// A mistake in `overrides`.
    pub fn read(
        &self,
        registry: &Registry,
        overrides: &Overrides,
    ) -> Result<Experiment, ExperimentError> {
        let file = (self.path, self.text);
        parse(registry, file, Path::new("."), overrides)
    }
}

/// The error if no experiment has that id, in a place where a file is accepted as well.
pub fn no_such_scenario(name: &str) -> UnknownName {
    let ids: Vec<&str> = EXPERIMENTS.iter().map(|e| e.id).collect();
    let near = suggestion(name, ids.iter().copied());
    UnknownName(format!(
        "found scenario \"{name}\", want a file ending in .toml or one of {}{near}",
        ids.join(", ")
    ))
}

/// Returns the reproductions of a paper.
///
/// # Errors
/// A name that is not the name of a paper.
pub fn of_paper(paper: &str) -> Result<Vec<&'static BuiltIn>, UnknownName> {
    let found: Vec<_> = reproductions().filter(|e| e.paper == Some(paper)).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let mut papers: Vec<&str> = reproductions().filter_map(|e| e.paper).collect();
    papers.dedup();
    let near = suggestion(paper, papers.iter().copied());
    Err(UnknownName(format!(
        "--paper: found \"{paper}\", want one of {}{near}",
        papers.join(", ")
    )))
}

/// Returns the reproductions with these ids, each once. The id of a paper with a joint table stands for all
/// experiments in it.
///
/// # Errors
/// The first id that matches no reproduction.
pub fn of_ids<'a>(
    ids: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<&'static BuiltIn>, UnknownName> {
    let mut chosen: Vec<&'static BuiltIn> = Vec::new();
    for id in ids {
        for experiment in named(id)? {
            if !chosen.iter().any(|c| c.id == experiment.id) {
                chosen.push(experiment);
            }
        }
    }
    Ok(chosen)
}

/// Returns the experiment with that id, or all experiments of the joint table with that id.
fn named(id: &str) -> Result<Vec<&'static BuiltIn>, UnknownName> {
    let joint = paper(id).is_some_and(|p| p.joint);
    let is = |e: &&BuiltIn| e.id == id || (joint && e.paper == Some(id));
    let found: Vec<_> = reproductions().filter(is).collect();
    if found.is_empty() {
        let mut ids: Vec<&str> = reproductions().map(|e| e.id).collect();
        ids.extend(PAPERS.iter().filter(|p| p.joint).map(|p| p.id));
        let near = suggestion(id, ids.iter().copied());
        return Err(UnknownName(format!(
            "found experiment \"{id}\", want one of {}{near}",
            ids.join(", ")
        )));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Scale;

    #[test]
    fn every_file_reads_at_every_scale_and_has_its_id() {
        let registry = Registry::standard();
        for file in EXPERIMENTS {
            for scale in Scale::ALL.map(Some).into_iter().chain([None]) {
                let overrides = Overrides {
                    scale,
                    ..Overrides::default()
                };
                let e = file.read(&registry, &overrides).unwrap();
                assert_eq!((e.id.as_str(), e.paper.as_deref()), (file.id, file.paper));
                let claims_nothing = file.paper.and_then(paper).is_none_or(|p| p.joint);
                assert_eq!(e.claims.is_empty(), claims_nothing, "{}", file.id);
                assert!(file.paper.is_none_or(|p| paper(p).is_some()), "{}", file.id);
                assert!(
                    e.claims.iter().all(|c| c.id.starts_with(file.id)),
                    "{}",
                    file.id
                );
            }
        }
    }
    #[test]
    fn reproductions_are_found_by_id_by_paper_and_by_joint_table() {
        let ids = |of: Vec<&BuiltIn>| of.iter().map(|e| e.id).collect::<Vec<_>>();
        let arena = ids(of_ids(["arena-incast", "arena"]).unwrap());
        assert_eq!(arena[0], "arena-incast");
        let all = reproductions().filter(|e| e.paper == Some("arena"));
        assert_eq!(arena.len(), all.count(), "each once");
        assert_eq!(
            of_paper("caps").unwrap().len(),
            reproductions().filter(|e| e.paper == Some("caps")).count()
        );
        let near = of_ids(["fuso-fig4"]).unwrap_err().to_string();
        assert!(
            near.starts_with("found experiment \"fuso-fig4\", want one of "),
            "{near}"
        );
        let near = of_paper("cap").unwrap_err().to_string();
        assert!(near.ends_with("did you mean \"caps\"?"), "{near}");
        assert!(of_ids(["compare"]).is_err(), "it reproduces nothing");
    }
}
