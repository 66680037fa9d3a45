//! Which of the versions on offer is to run next, if any.
//!
//! What the operator names, by a pin or for this once, is judged and either taken or refused with a reason.
//! Where nothing is named, the newest version by precedence is taken, and only if it is above what is
//! installed: the list of offers is someone else's, and a version that vanished from it, even the newest, is no
//! reason to go back. A version without precedence is taken when it is named, and never because it compares.
//!
//! Pure, and independent of the order of the offers, so that two machines that see the same decide the same.

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Serialize};

use crate::{Relation, Version};

/// What the local policy allows, whoever asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Nothing below this runs, not even by a pin. A version that cannot be compared with it is below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_version: Option<Version>,
    /// Whether a pre-release can be the newest. One that is named is not asked.
    #[serde(default)]
    pub allow_prerelease: Prerelease,
}

/// What becomes of pre-releases when the newest version is looked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prerelease {
    /// They are passed over.
    #[default]
    Skip,
    /// They compete by precedence.
    Allow,
}

/// What is known when a selection is made.
#[derive(Debug, Clone, Copy, Default)]
pub struct Situation<'a> {
    /// What is installed.
    pub installed: Option<&'a Version>,
    /// The only version that may run, by the operator's standing word. It may lead down.
    pub pin: Option<&'a Version>,
    /// The version asked for this once. It does not lead down.
    pub wanted: Option<&'a Version>,
    /// Versions of which every known build is in quarantine.
    pub quarantined: &'a [Version],
}

/// What a selection comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// This offer is to be carried out.
    Take {
        /// Its index in the offers.
        index: usize,
        /// How it stands to what is installed; absent when nothing is.
        relation: Option<Relation>,
    },
    /// Nothing is to be done.
    Hold {
        /// Why.
        reason: Hold,
    },
}

/// Why nothing is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// The version that was named is installed.
    AlreadyInstalled {
        /// The version installed.
        installed: Version,
    },
    /// The newest on offer has the precedence of what is installed.
    UpToDate {
        /// The version installed.
        installed: Version,
    },
    /// Everything on offer is below what is installed; that is no reason to go back.
    NothingNewer {
        /// The version installed.
        installed: Version,
        /// The newest on offer.
        newest: Version,
    },
    /// There are newer versions, each of them in quarantine or a pre-release that is passed over.
    PassedOver {
        /// The newest of them.
        newest: Version,
        /// Why it was passed over.
        because: PassedOver,
    },
    /// Nothing is on offer.
    NothingOffered,
    /// No version on offer has a precedence.
    NothingComparable {
        /// How many are on offer.
        offered: usize,
    },
    /// What is installed has no precedence, so that nothing is newer than it.
    InstalledIncomparable {
        /// The version installed.
        installed: Version,
    },
    /// The pinned version is not installed and not on offer now.
    PinNotOffered {
        /// The pinned version.
        pin: Version,
        /// What is on offer, newest and nearest.
        nearest: Nearest,
    },
}

/// Why a newer version was passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassedOver {
    /// It is in quarantine.
    Quarantined,
    /// It is a pre-release, and those are not wanted.
    Prerelease,
}

/// A version that may not be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Objection {
    /// The version asked for is not on offer.
    #[error("expected {wanted} on offer, found {nearest}")]
    NotOffered {
        /// The version asked for.
        wanted: Version,
        /// What is on offer, newest and nearest.
        nearest: Nearest,
    },
    /// The version asked for is not the pinned one.
    #[error("expected the pinned version {pin}, found {wanted} asked for")]
    Pinned {
        /// The pinned version.
        pin: Version,
        /// The version asked for.
        wanted: Version,
    },
    /// The version asked for is lower than what is installed.
    #[error("expected a version not below {installed}, which is installed, found {wanted}")]
    Downgrade {
        /// The version installed.
        installed: Version,
        /// The version asked for.
        wanted: Version,
    },
    /// The version is below the lowest that may run, or cannot be compared with it.
    #[error("expected a version not below {min}, the lowest allowed, found {version}{}", doubt(version, min))]
    BelowMinimum {
        /// The version.
        version: Version,
        /// The lowest that may run.
        min: Version,
    },
    /// The version that was named is in quarantine.
    #[error("expected a version that is not in quarantine, found {version}")]
    Quarantined {
        /// The version.
        version: Version,
    },
}

/// Versions on offer that help whoever named one that is not: the newest, and the neighbours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nearest(pub Vec<Version>);

/// Selects from `offers`, which come in any order.
///
/// # Errors
/// [`Objection`] when a version was named that may not be taken, or when everything newer is below the
/// lowest that may run.
pub fn select(offers: &[Version], bounds: &Bounds, situation: &Situation) -> Result<Choice, Objection> {
    match (situation.wanted, situation.pin) {
        (Some(wanted), Some(pin)) if !wanted.names_same(pin) => {
            Err(Objection::Pinned { pin: pin.clone(), wanted: wanted.clone() })
        }
        (Some(wanted), pin) => select_wanted(wanted, pin, offers, bounds, situation),
        (None, Some(pin)) => select_pinned(pin, offers, bounds, situation),
        (None, None) => select_newest(offers, bounds, situation),
    }
}

fn select_wanted(
    wanted: &Version,
    pin: Option<&Version>,
    offers: &[Version],
    bounds: &Bounds,
    situation: &Situation,
) -> Result<Choice, Objection> {
    if let Some(hold) = already_installed(wanted, situation) {
        return Ok(hold);
    }
    let Some(index) = offered(wanted, offers) else {
        return Err(Objection::NotOffered { wanted: wanted.clone(), nearest: Nearest::to(wanted, offers) });
    };
    admit(&offers[index], bounds, situation)?;
    let relation = situation.relation(&offers[index]);
    match (relation, situation.installed, pin) {
        (Some(Relation::Downgrade), Some(installed), None) => {
            Err(Objection::Downgrade { installed: installed.clone(), wanted: wanted.clone() })
        }
        _ => Ok(Choice::Take { index, relation }),
    }
}

fn select_pinned(
    pin: &Version,
    offers: &[Version],
    bounds: &Bounds,
    situation: &Situation,
) -> Result<Choice, Objection> {
    if let Some(hold) = already_installed(pin, situation) {
        return Ok(hold);
    }
    admit(pin, bounds, situation)?;
    Ok(match offered(pin, offers) {
        Some(index) => Choice::Take { index, relation: situation.relation(&offers[index]) },
        // A standing wish waits; what is not on offer now may be later.
        None => hold(Hold::PinNotOffered { pin: pin.clone(), nearest: Nearest::to(pin, offers) }),
    })
}

fn select_newest(offers: &[Version], bounds: &Bounds, situation: &Situation) -> Result<Choice, Objection> {
    if let Some(installed) = situation.installed.filter(|installed| !installed.is_semver()) {
        return Ok(hold(Hold::InstalledIncomparable { installed: installed.clone() }));
    }
    let passed_over = |version: &Version| {
        if situation.quarantines(version) {
            Some(PassedOver::Quarantined)
        } else if version.is_prerelease() && bounds.allow_prerelease == Prerelease::Skip {
            Some(PassedOver::Prerelease)
        } else {
            None
        }
    };
    let newer = |version: &Version| {
        situation.installed.is_none_or(|installed| version.relation_to(installed) == Relation::Upgrade)
    };
    if let Some(index) = newest(offers, |version| newer(version) && passed_over(version).is_none()) {
        check_minimum(&offers[index], bounds)?;
        return Ok(Choice::Take { index, relation: situation.relation(&offers[index]) });
    }
    if let Some(index) = newest(offers, newer)
        && let Some(because) = passed_over(&offers[index])
    {
        return Ok(hold(Hold::PassedOver { newest: offers[index].clone(), because }));
    }
    Ok(hold(nothing_newer(offers, situation)))
}

fn nothing_newer(offers: &[Version], situation: &Situation) -> Hold {
    match (newest(offers, |_| true).map(|index| &offers[index]), situation.installed) {
        (Some(newest), Some(installed)) if newest.relation_to(installed) == Relation::Same => {
            Hold::UpToDate { installed: installed.clone() }
        }
        (Some(newest), Some(installed)) => {
            Hold::NothingNewer { installed: installed.clone(), newest: newest.clone() }
        }
        _ if offers.is_empty() => Hold::NothingOffered,
        _ => Hold::NothingComparable { offered: offers.len() },
    }
}

fn hold(reason: Hold) -> Choice {
    Choice::Hold { reason }
}

/// The named version is what is installed: nothing is to be done, on offer or not.
fn already_installed(named: &Version, situation: &Situation) -> Option<Choice> {
    let installed = situation.installed.filter(|installed| installed.names_same(named))?;
    Some(hold(Hold::AlreadyInstalled { installed: installed.clone() }))
}

/// What holds for a version however it came to be named.
fn admit(version: &Version, bounds: &Bounds, situation: &Situation) -> Result<(), Objection> {
    check_minimum(version, bounds)?;
    if situation.quarantines(version) {
        return Err(Objection::Quarantined { version: version.clone() });
    }
    Ok(())
}

fn check_minimum(version: &Version, bounds: &Bounds) -> Result<(), Objection> {
    match &bounds.min_version {
        Some(min) if !matches!(version.precedence(min), Some(Ordering::Equal | Ordering::Greater)) => {
            Err(Objection::BelowMinimum { version: version.clone(), min: min.clone() })
        }
        _ => Ok(()),
    }
}

/// The newest of the offers that have a precedence and are `eligible`.
fn newest(offers: &[Version], eligible: impl Fn(&Version) -> bool) -> Option<usize> {
    let candidates =
        (0..offers.len()).filter(|index| offers[*index].is_semver() && eligible(&offers[*index]));
    candidates.max_by(|a, b| by_age(&offers[*a], &offers[*b]).then(b.cmp(a)))
}

/// The offer that names `version`, the one with its very text before one that differs by a leading `v`.
fn offered(version: &Version, offers: &[Version]) -> Option<usize> {
    let matching = (0..offers.len()).filter(|index| offers[*index].names_same(version));
    matching.max_by(|a, b| {
        let exact = |index: usize| offers[index] == *version;
        exact(*a).cmp(&exact(*b)).then_with(|| offers[*a].as_str().cmp(offers[*b].as_str())).then(b.cmp(a))
    })
}

/// Precedence, and where that is equal the text: any fixed rule keeps two machines from deciding differently.
fn by_age(a: &Version, b: &Version) -> Ordering {
    a.precedence(b).unwrap_or(Ordering::Equal).then_with(|| a.as_str().cmp(b.as_str()))
}

impl Situation<'_> {
    fn relation(&self, version: &Version) -> Option<Relation> {
        self.installed.map(|installed| version.relation_to(installed))
    }

    fn quarantines(&self, version: &Version) -> bool {
        self.quarantined.iter().any(|quarantined| quarantined.names_same(version))
    }
}

impl Nearest {
    const NEWEST: usize = 3;

    fn to(wanted: &Version, offers: &[Version]) -> Self {
        let mut sorted: Vec<_> = offers.iter().filter(|version| version.is_semver()).collect();
        if sorted.is_empty() {
            sorted.extend(offers);
        }
        sorted.sort_by(|a, b| by_age(b, a));
        sorted.dedup();
        if !wanted.is_semver() {
            sorted.truncate(Self::NEWEST);
            return Self(sorted.into_iter().cloned().collect());
        }
        let higher = |version: &&&Version| version.relation_to(wanted) != Relation::Downgrade;
        let next_higher = sorted.iter().rfind(higher).copied();
        let next_lower = sorted.iter().find(|version| !higher(version)).copied();
        let mut near: Vec<_> =
            [sorted.first().copied(), next_higher, next_lower].into_iter().flatten().collect();
        near.dedup();
        Self(near.into_iter().cloned().collect())
    }
}

impl fmt::Display for Nearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((last, others)) = self.0.split_last() else { return f.write_str("nothing on offer") };
        for version in others {
            write!(f, "{version}, ")?;
        }
        write!(f, "{last}")
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyInstalled { installed } => write!(f, "{installed} is installed"),
            Self::UpToDate { installed } => {
                write!(f, "{installed} is installed and the newest on offer")
            }
            Self::NothingNewer { installed, newest } => write!(
                f,
                "{installed} is installed and above {newest}, the newest on offer; nothing goes back by itself"
            ),
            Self::PassedOver { newest, because: PassedOver::Quarantined } => {
                write!(f, "{newest}, the newest on offer, is in quarantine")
            }
            Self::PassedOver { newest, because: PassedOver::Prerelease } => {
                write!(f, "{newest}, the newest on offer, is a pre-release")
            }
            Self::NothingOffered => f.write_str("nothing is on offer"),
            Self::NothingComparable { offered } => {
                write!(f, "expected semantic versions on offer, found none among {offered}")
            }
            Self::InstalledIncomparable { installed } => write!(
                f,
                "{installed} is installed and no semantic version, so that nothing is newer than it"
            ),
            Self::PinNotOffered { pin, nearest } => {
                write!(f, "expected the pinned version {pin} on offer, found {nearest}")
            }
        }
    }
}

impl Objection {
    /// What an operator can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotOffered { .. } => {
                "ask for a version that is on offer, or deliver this one to the source"
            }
            Self::Pinned { .. } => "ask for the pinned version, or unpin",
            Self::Downgrade { .. } => {
                "pin the version to go down to it, or roll back to one that was confirmed"
            }
            Self::BelowMinimum { .. } => "choose a newer version, or lower min_version in the configuration",
            Self::Quarantined { .. } => "see the history for why it failed, and release it to try it again",
        }
    }
}

fn doubt(version: &Version, min: &Version) -> &'static str {
    if version.precedence(min).is_none() { ", which cannot be compared with it" } else { "" }
}
