//! `--config FILE`: flags of `gateway` and `connect` from a TOML file.
//!
//! A key is a flag's name without its dashes, and its values are those of the flag. There is no list of keys
//! besides the flags' own definitions. The file's settings are put before the flags as if they had been given
//! there, unless the same flag was given. Mistakes are then reported with the file's line. The tables of a gateway's
//! services ([`ServiceTable`]) are kept apart.

mod services;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::ValueHint;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory};
use spindle_experiment::{Origin, suggestion};
use toml::de::{DeTable, DeValue};

use crate::args::Args;
use crate::args::service::BundleArg;
use crate::failure::{Failure, Setting};
use services::SERVICE;
pub(crate) use services::ServiceTable;

/// The flag that names the file. It is not a key.
const CONFIG: &str = "config";
/// The flag by which the processes of `exec` start each other. It is not a key.
const PART: &str = "part";
/// The longest file that is read, in bytes. All keys with a page of comment each need less.
const LONGEST: u64 = 1 << 20;

/// Why a file of settings is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    /// The file cannot be read.
    #[error("--config: {}: cannot be read: {source}", file.display())]
    Read { file: PathBuf, source: io::Error },
    /// The file is not valid TOML.
    #[error("{origin}: not valid TOML: {message}")]
    Syntax { origin: Origin, message: String },
    /// No flag has this name.
    #[error("{origin}: {key}: unknown key, accepted here: {}{near}", accepted.join(", "))]
    Unknown {
        origin: Origin,
        key: String,
        accepted: Vec<String>,
        near: String,
    },
    /// The flag is one of the whole gateway, not of a service.
    #[error("{origin}: {key}: is common to all services; put it before the first [[service]]")]
    Common { origin: Origin, key: String },
    /// The flag does not accept this value.
    #[error("{origin}: {key}: found {found}, want {want}")]
    Value {
        origin: Origin,
        key: String,
        found: String,
        want: String,
    },
}

impl From<SettingsError> for Failure {
    fn from(e: SettingsError) -> Self {
        Self::Usage(e.to_string())
    }
}

/// The settings of a file, and where they were found.
#[derive(Debug)]
pub(crate) struct Settings {
    file: Arc<str>,
    /// The settings taken from the file, in their order.
    taken: Vec<Taken>,
    /// The tables of services.
    services: Vec<ServiceTable>,
    /// Flags that were given on the command line.
    flags: Vec<String>,
}

#[derive(Clone, Debug)]
struct Taken {
    key: String,
    /// The flag's value. `None` for a flag without a value.
    value: Option<String>,
    origin: Origin,
}

/// If the arguments name a file, returns the arguments with the file's settings among them, and these settings.
/// Arguments that cannot be parsed are returned unchanged, so that the code that parses them next reports the
/// error.
pub(crate) fn read(
    arguments: Vec<OsString>,
) -> Result<(Vec<OsString>, Option<Settings>), SettingsError> {
    let mut command = Args::command();
    let Ok(matches) = command.try_get_matches_from_mut(&arguments) else {
        return Ok((arguments, None));
    };
    let named = matches.subcommand().and_then(|(name, matches)| {
        let file = matches.try_get_one::<PathBuf>(CONFIG).ok().flatten()?;
        Some((command.find_subcommand(name)?, matches, file))
    });
    let Some((command, matches, path)) = named else {
        return Ok((arguments, None));
    };
    let text = contents(path).map_err(|source| SettingsError::Read {
        file: path.clone(),
        source,
    })?;
    let file = Source {
        name: path.to_string_lossy().into(),
        text: &text,
    };
    let mut settings = Settings {
        file: file.name.clone(),
        taken: Vec::new(),
        services: Vec::new(),
        flags: command
            .get_arguments()
            .filter_map(|a| given(a, matches))
            .collect(),
    };
    let known: Vec<&Arg> = command.get_arguments().filter(|a| is_key(a)).collect();
    let tables: &[&str] = match command.get_name() {
        "gateway" => &[SERVICE],
        _ => &[],
    };
    file.take(&known, tables, &mut settings)?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let words = settings.taken.iter().map(|t| t.word(&known, directory));
    let mut all = arguments;
    // Insert after the names of the program and the command, neither of which accepts flags before it.
    let words: Vec<OsString> = words.collect();
    all.splice(2..2, words);
    Ok((all, Some(settings)))
}

fn contents(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(LONGEST + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST {
        let text = format!("it is longer than {LONGEST} bytes");
        return Err(io::Error::other(text));
    }
    Ok(text)
}

/// The flag's name, if the flag was given on the command line.
fn given(arg: &Arg, matches: &ArgMatches) -> Option<String> {
    let source = matches.value_source(arg.get_id().as_str())?;
    (source == ValueSource::CommandLine).then(|| arg.get_long().map(str::to_owned))?
}

/// Whether the flag may be in a file.
fn is_key(arg: &Arg) -> bool {
    let takes = matches!(
        arg.get_action(),
        ArgAction::Set | ArgAction::Append | ArgAction::SetTrue
    );
    takes
        && arg
            .get_long()
            .is_some_and(|long| long != CONFIG && long != PART)
}

impl Settings {
    /// Reports a mistake with the file's line if the wrong value came from it, or with the file alone if the
    /// setting is missing there.
    pub(crate) fn place(&self, failure: Failure) -> Failure {
        let Failure::Setting(setting) = failure else {
            return failure;
        };
        if self.flags.contains(&setting.flag) {
            return Failure::Setting(setting);
        }
        placed(&setting, &self.taken, &Origin::File(self.file.clone()))
    }

    /// The tables of a gateway's services.
    pub(crate) fn services(&self) -> &[ServiceTable] {
        &self.services
    }
}

/// A mistake with the line of the value that is wrong, or else of the first value of its key, or else with `whole`.
fn placed(setting: &Setting, taken: &[Taken], whole: &Origin) -> Failure {
    let Setting {
        flag,
        found,
        problem,
    } = setting;
    let mut all = taken.iter().filter(|t| t.key == *flag).peekable();
    let first = all.peek().map(|t| &t.origin);
    let very = all.find(|t| found.is_some() && t.value == *found);
    let origin = very.map(|t| &t.origin).or(first).unwrap_or(whole);
    Failure::Usage(match flag.as_str() {
        "" => format!("{origin}: {problem}"),
        flag => format!("{origin}: {flag}{problem}"),
    })
}

impl Taken {
    /// The setting as an argument. Paths are relative to the file's directory.
    fn word(&self, known: &[&Arg], directory: &Path) -> OsString {
        let Some(value) = &self.value else {
            return format!("--{}", self.key).into();
        };
        let mut word = OsString::from(format!("--{}=", self.key));
        let arg = known.iter().find(|a| a.get_long() == Some(&self.key));
        let file = arg.is_some_and(|a| a.get_value_hint() == ValueHint::AnyPath);
        if file && !BundleArg::is_no_file(value) {
            word.push(directory.join(value));
        } else {
            word.push(value);
        }
        word
    }
}

/// A file while it is read.
struct Source<'a> {
    name: Arc<str>,
    text: &'a str,
}

impl Source<'_> {
    fn at(&self, offset: usize) -> Origin {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        Origin::Line {
            file: self.name.clone(),
            line: 1 + before.iter().filter(|b| **b == b'\n').count() as u32,
        }
    }

    /// Takes the settings that are not given on the command line, and the tables of services if `tables` has their key.
    fn take(
        &self,
        known: &[&Arg],
        tables: &[&str],
        settings: &mut Settings,
    ) -> Result<(), SettingsError> {
        let table = DeTable::parse(self.text).map_err(|e| SettingsError::Syntax {
            origin: self.at(e.span().map_or(0, |s| s.start)),
            message: e.message().split_whitespace().collect::<Vec<_>>().join(" "),
        })?;
        let mut entries: Vec<_> = table.get_ref().iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let origin = self.at(key.span().start);
            let name: &str = key.get_ref();
            if tables.contains(&name) {
                self.take_services(value.get_ref(), &origin, known, settings)?;
                continue;
            }
            let arg = known.iter().find(|a| a.get_long() == Some(name));
            let arg = arg.ok_or_else(|| unknown(name, &origin, known, tables))?;
            let values = self.values(arg, value.get_ref(), &origin)?;
            if !settings.flags.iter().any(|f| f == name) {
                settings.taken.extend(values);
            }
        }
        Ok(())
    }

    /// The values of an entry for its flag: none for `false`, several for a list.
    fn values(
        &self,
        arg: &Arg,
        value: &DeValue<'_>,
        origin: &Origin,
    ) -> Result<Vec<Taken>, SettingsError> {
        let key = arg.get_long().unwrap_or_default().to_owned();
        let one = |value: &DeValue<'_>, origin: Origin| {
            let text = plain(value).filter(|text| accepts(arg, text));
            let value = text.ok_or_else(|| SettingsError::Value {
                origin: origin.clone(),
                key: key.clone(),
                found: found(value),
                want: want(arg),
            })?;
            Ok(Taken {
                key: key.clone(),
                value: Some(value),
                origin,
            })
        };
        match (arg.get_action(), value) {
            (ArgAction::SetTrue, DeValue::Boolean(on)) => Ok(on
                .then(|| Taken {
                    key: key.clone(),
                    value: None,
                    origin: origin.clone(),
                })
                .into_iter()
                .collect()),
            (ArgAction::Append, DeValue::Array(items)) => items
                .iter()
                .map(|item| one(item.get_ref(), self.at(item.span().start)))
                .collect(),
            (_, value) => one(value, origin.clone()).map(|taken| vec![taken]),
        }
    }
}

fn unknown(key: &str, origin: &Origin, known: &[&Arg], tables: &[&str]) -> SettingsError {
    let names = known.iter().filter_map(|a| a.get_long());
    let names = names.chain(tables.iter().copied());
    SettingsError::Unknown {
        origin: origin.clone(),
        key: key.to_owned(),
        near: suggestion(key, names.clone()),
        accepted: names.map(str::to_owned).collect(),
    }
}

/// A string or a whole number, as it would be written on the command line.
fn plain(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(i) => {
            let digits = i.as_str().replace('_', "");
            let number = i64::from_str_radix(&digits, i.radix()).ok()?;
            Some(number.to_string())
        }
        _ => None,
    }
}

/// Whether the flag accepts this value at all. The code that uses the value checks its meaning.
fn accepts(arg: &Arg, text: &str) -> bool {
    let choices = arg.get_possible_values();
    let chosen = choices.is_empty() || choices.iter().any(|c| c.matches(text, false));
    !matches!(arg.get_action(), ArgAction::SetTrue) && !text.is_empty() && chosen
}

fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("\"{text}\""),
        DeValue::Integer(i) => i.as_str().to_owned(),
        DeValue::Float(f) => f.as_str().to_owned(),
        DeValue::Boolean(b) => b.to_string(),
        DeValue::Datetime(d) => d.to_string(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// The values that the flag accepts.
fn want(arg: &Arg) -> String {
    let choices = arg.get_possible_values();
    let name = arg.get_value_names().and_then(<[_]>::first);
    match (arg.get_action(), name) {
        (ArgAction::SetTrue, _) => "true or false".to_owned(),
        _ if !choices.is_empty() => {
            let names: Vec<_> = choices.iter().map(|c| c.get_name()).collect();
            format!("one of {}", names.join(", "))
        }
        (ArgAction::Append, Some(name)) => format!("{name} in quotes, or a list of them"),
        (_, Some(name)) if name.as_str() == "N" => "a whole number".to_owned(),
        (_, Some(name)) => format!("{name} in quotes"),
        (_, None) => "a text in quotes".to_owned(),
    }
}
