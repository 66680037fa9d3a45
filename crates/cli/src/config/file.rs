//! What a configuration file may say: everything optional, nothing believed yet.
//!
//! Each struct is one table. The same structs print the effective configuration, in this order, so that
//! what `show` prints can be read again.

use std::{collections::BTreeMap, path::PathBuf};

use myriarch_policy::Version;
use myriarch_verify::Digest;
use serde::Serialize;

use super::{
    Account, IdentityCheck, Prerelease, Requirement, StopSignal,
    interval::CheckIntervalText,
    problem::Problems,
    section::{Said, Section},
};
use crate::{duration::DurationText, size::Size};

/// One table whose keys are all known and all optional.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident { $($key:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Default, Serialize)]
        pub(crate) struct $name {
            $(
                #[serde(skip_serializing_if = "Option::is_none")]
                pub(crate) $key: Option<Said<$type>>,
            )*
        }

        impl $name {
            const KEYS: &[&str] = &[$(stringify!($key)),*];

            fn read(mut section: Section<'_>, problems: &mut Problems<'_>) -> Self {
                let read = Self {
                    $($key: section.take(stringify!($key), problems),)*
                };
                section.finish(Self::KEYS, problems);
                read
            }
        }
    };
}

/// Every key there is, by table, to say where a misplaced one belongs.
pub(crate) const KNOWN: &[(&str, &[&str])] = &[
    ("", File::KEYS),
    ("program", ProgramTable::KEYS),
    ("store", StoreTable::KEYS),
    ("run", RunTable::KEYS),
    ("source", SourceTable::KEYS),
    ("trust", TrustTable::KEYS),
    ("trust.keyless", KeylessTable::KEYS),
    ("policy", PolicyTable::KEYS),
    ("restart", RestartTable::KEYS),
    ("validate", ValidateTable::KEYS),
    ("validate.components", ComponentsTable::KEYS),
    ("probe", ProbeTable::KEYS),
    ("trial", TrialTable::KEYS),
];

/// The whole file.
#[derive(Debug, Default, Serialize)]
pub(crate) struct File {
    pub(crate) schema: Option<Said<i64>>,
    pub(crate) service: Option<Said<String>>,
    pub(crate) program: ProgramTable,
    pub(crate) store: StoreTable,
    pub(crate) run: RunTable,
    pub(crate) source: SourceTable,
    pub(crate) trust: TrustTable,
    pub(crate) policy: PolicyTable,
    pub(crate) restart: RestartTable,
    pub(crate) validate: ValidateTable,
    pub(crate) probe: ProbeTable,
    pub(crate) trial: TrialTable,
}

table!(
    /// `[program]`
    ProgramTable {
        binary: String,
        distribution: String,
    }
);
table!(
    /// `[store]`
    StoreTable {
        path: PathBuf,
        keep: u32,
    }
);
table!(
    /// `[run]`
    RunTable {
        directory: PathBuf,
        check_interval: CheckIntervalText,
    }
);
table!(
    /// `[source]`, of whatever kind
    SourceTable {
        kind: SourceKind,
        index: String,
        archive: String,
        checksum: String,
        bundle: String,
        path: PathBuf,
        max_archive: Size,
        ca: PathBuf,
        proxy: String,
        credentials: PathBuf,
        connect_timeout: DurationText,
        first_byte_timeout: DurationText,
        stall_timeout: DurationText,
    }
);
table!(
    /// `[[trust.keyless]]`
    KeylessTable {
        issuer: String,
        identity: String,
        trusted_root: PathBuf,
        require: Vec<Requirement>,
        claims: BTreeMap<String, String>,
    }
);
table!(
    /// `[policy]`
    PolicyTable {
        min_version: Version,
        prerelease: Prerelease,
    }
);
table!(
    /// `[restart]`, of whatever kind
    RestartTable {
        kind: RestartKind,
        unit: String,
        command: Vec<String>,
        environment: BTreeMap<String, String>,
        working_directory: PathBuf,
        stop_signal: StopSignal,
        stop_timeout: DurationText,
        stop_command: Vec<String>,
        timeout: DurationText,
    }
);
table!(
    /// `components` of `[validate]`
    ComponentsTable {
        receivers: Vec<String>,
        processors: Vec<String>,
        exporters: Vec<String>,
        connectors: Vec<String>,
        extensions: Vec<String>,
    }
);
table!(
    /// `[probe]`
    ProbeTable {
        http: String,
        command: Vec<String>,
        identity: IdentityCheck,
        timeout: DurationText,
        interval: DurationText,
        settle: DurationText,
        soak: DurationText,
        tolerate: u32,
    }
);
table!(
    /// `[trial]`
    TrialTable {
        tries: u8,
        log: PathBuf,
    }
);

/// `[trust]`
#[derive(Debug, Default, Serialize)]
pub(crate) struct TrustTable {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) keyless: Vec<Said<KeylessTable>>,
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_map")]
    pub(crate) pins: Vec<(Said<String>, Said<Digest>)>,
}

/// `[validate]`
#[derive(Debug, Default, Serialize)]
pub(crate) struct ValidateTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) effective: Option<Said<PathBuf>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) configuration: Option<Said<PathBuf>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<Said<DurationText>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) arguments: Option<Said<Vec<String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<Said<Account>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<Said<Account>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) working_directory: Option<Said<PathBuf>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) environment: Option<Said<BTreeMap<String, String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) components: Option<ComponentsTable>,
}

/// `source.kind`
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SourceKind {
    Http,
    Directory,
}

/// `restart.kind`
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RestartKind {
    Child,
    Command,
    Systemd,
}

impl File {
    const KEYS: &[&str] = &[
        "schema", "service", "program", "store", "run", "source", "trust", "policy", "restart", "validate",
        "probe", "trial",
    ];

    /// Takes everything known out of the top table.
    pub(crate) fn read(mut top: Section<'_>, problems: &mut Problems<'_>) -> Self {
        macro_rules! read {
            ($key:literal, $table:ident) => {
                match top.take_section($key, problems) {
                    Some(section) => $table::read(section, problems),
                    None => $table::default(),
                }
            };
        }
        let file = Self {
            schema: top.take("schema", problems),
            service: top.take("service", problems),
            program: read!("program", ProgramTable),
            store: read!("store", StoreTable),
            run: read!("run", RunTable),
            source: read!("source", SourceTable),
            trust: read!("trust", TrustTable),
            policy: read!("policy", PolicyTable),
            restart: read!("restart", RestartTable),
            validate: read!("validate", ValidateTable),
            probe: read!("probe", ProbeTable),
            trial: read!("trial", TrialTable),
        };
        top.finish(Self::KEYS, problems);
        file
    }
}

impl TrustTable {
    const KEYS: &[&str] = &["keyless", "pins"];

    fn read(mut section: Section<'_>, problems: &mut Problems<'_>) -> Self {
        let rules = section.take_sections("keyless", problems);
        let table = Self {
            keyless: rules
                .into_iter()
                .map(|rule| Said { at: rule.header(), value: KeylessTable::read(rule, problems) })
                .collect(),
            pins: match section.take_section("pins", problems) {
                Some(pins) => pins.take_rest(problems),
                None => Vec::new(),
            },
        };
        section.finish(Self::KEYS, problems);
        table
    }
}

impl ValidateTable {
    const KEYS: &[&str] = &[
        "effective",
        "configuration",
        "timeout",
        "arguments",
        "user",
        "group",
        "working_directory",
        "environment",
        "components",
    ];

    fn read(mut section: Section<'_>, problems: &mut Problems<'_>) -> Self {
        let table = Self {
            effective: section.take("effective", problems),
            configuration: section.take("configuration", problems),
            timeout: section.take("timeout", problems),
            arguments: section.take("arguments", problems),
            user: section.take("user", problems),
            group: section.take("group", problems),
            working_directory: section.take("working_directory", problems),
            environment: section.take("environment", problems),
            components: section
                .take_section("components", problems)
                .map(|components| ComponentsTable::read(components, problems)),
        };
        section.finish(Self::KEYS, problems);
        table
    }
}

fn as_map<S: serde::Serializer>(
    pins: &[(Said<String>, Said<Digest>)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pins.iter().map(|(version, archive)| (&version.value, archive)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The keys that `text` names below each header, where `key_of` reads a key from a line.
    fn named<'t>(
        text: &'t str,
        header_of: impl Fn(&'t str) -> Option<&'t str>,
        key_of: impl Fn(&'t str) -> Option<&'t str>,
    ) -> BTreeSet<(&'t str, &'t str)> {
        let mut section = "";
        let mut found = BTreeSet::new();
        for line in text.lines() {
            if let Some(header) = header_of(line) {
                section = header;
            } else if let Some(key) = key_of(line) {
                found.insert((section, key));
            }
        }
        found
    }

    fn known() -> BTreeSet<(&'static str, &'static str)> {
        let sections: BTreeSet<_> = File::KEYS.iter().copied().collect();
        let all = KNOWN.iter().flat_map(|(section, keys)| keys.iter().map(|key| (*section, *key)));
        all.filter(|(section, key)| !(section.is_empty() && KNOWN.iter().any(|(name, _)| name == key)))
            .inspect(|(section, key)| assert!(!section.is_empty() || sections.contains(key)))
            .collect()
    }

    #[test]
    fn the_reference_names_every_key_and_no_other() {
        let reference = include_str!("../../../../docs/configuration.md");
        let found = named(
            reference,
            |line| match line.strip_prefix("## ")?.trim_matches('`') {
                "Top of the file" => Some(""),
                header => header.strip_prefix('[').map(|header| header.trim_matches(['[', ']'])),
            },
            |line| line.strip_prefix("| `")?.split('`').next(),
        );
        assert_eq!(found, known());
    }

    #[test]
    fn the_example_names_every_key_and_no_other() {
        let bare = |line: &'static str| line.strip_prefix("# ").unwrap_or(line);
        let found = named(
            crate::Config::example(),
            |line| bare(line).strip_prefix('[').map(|header| header.trim_matches(['[', ']'])),
            |line| {
                let (key, value) = bare(line).split_once(" = ")?;
                (!key.contains(' ') && !key.starts_with('"') && !value.is_empty()).then_some(key)
            },
        );
        // Said in the example in another spelling: as tables of their own, or inline.
        let spelt: BTreeSet<_> = known()
            .into_iter()
            .filter(|(section, key)| {
                *section != "trust" && *section != "validate.components" && *key != "claims"
            })
            .collect();
        let found: BTreeSet<_> =
            found.into_iter().filter(|(section, _)| *section != "trust.keyless.claims").collect();
        assert_eq!(found, spelt);
        for key in ComponentsTable::KEYS {
            assert!(crate::Config::example().contains(key), "{key}");
        }
    }
}
