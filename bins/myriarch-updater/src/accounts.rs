//! Accounts of this machine: names to numbers, and what a user's program finds in its environment.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use myriarch_cli::config::Account;
use myriarch_probe::exec::Credentials;
use myriarch_systemd::Unit;

/// An account that this machine does not have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    User(String),
    Group(String),
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "expected its user among /etc/passwd, found no {name:?}"),
            Self::Group(name) => write!(f, "expected its group among /etc/group, found no {name:?}"),
        }
    }
}

/// User and group as numbers, with the user's supplementary groups and `more` of them.
pub(crate) fn credentials(
    user: &Account,
    group: Option<&Account>,
    more: &[Account],
) -> Result<Credentials, Unknown> {
    let (passwd, groups) = (text("/etc/passwd"), text("/etc/group"));
    let known = entry(&passwd, user);
    let number = |fields: &Vec<String>, at: usize| fields.get(at).and_then(|field| field.parse().ok());
    let uid = match user {
        Account::Id(id) => *id,
        Account::Name(name) => {
            known.as_ref().and_then(|fields| number(fields, 2)).ok_or_else(|| Unknown::User(name.clone()))?
        }
    };
    let group_id = |group: &Account| match group {
        Account::Id(id) => Ok(*id),
        Account::Name(name) => entry(&groups, group)
            .and_then(|fields| number(&fields, 2))
            .ok_or_else(|| Unknown::Group(name.clone())),
    };
    let gid = match group {
        Some(group) => group_id(group)?,
        None => known.as_ref().and_then(|fields| number(fields, 3)).unwrap_or(uid),
    };
    let member = known.as_ref().map_or("", |fields| &fields[0]);
    let mut all: Vec<u32> = groups
        .lines()
        .filter_map(|line| {
            let fields: Vec<_> = line.split(':').collect();
            let is_member = fields.get(3)?.split(',').any(|name| !member.is_empty() && name == member);
            is_member.then(|| fields[2].parse().ok()).flatten()
        })
        .chain([gid])
        .collect();
    for group in more {
        all.push(group_id(group)?);
    }
    Ok(Credentials { uid, gid, groups: all })
}

/// Whom a unit's program runs as; none for root, and where systemd makes the user up for each run.
///
/// # Errors
/// Where this machine's files do not know the account; other services that know it are not asked.
pub(crate) fn of_unit(unit: &Unit) -> Result<Option<Credentials>, Unknown> {
    let account = |text: &String| text.parse().map_or_else(|_| Account::Name(text.clone()), Account::Id);
    let user = unit.account.user.as_ref().map(account);
    let group = unit.account.group.as_ref().map(account);
    let more: Vec<_> = unit.account.supplementary_groups.iter().map(account).collect();
    if user.is_none() && group.is_none() && more.is_empty() {
        return Ok(None);
    }
    match credentials(&user.unwrap_or(Account::Id(0)), group.as_ref(), &more) {
        Err(_) if unit.account.dynamic_user => Ok(None),
        known => known.map(Some),
    }
}

/// A user's home directory.
pub(crate) fn home(uid: u32) -> Option<PathBuf> {
    entry(&text("/etc/passwd"), &Account::Id(uid))?.get(5).map(PathBuf::from)
}

/// What systemd sets for a unit with `User=`.
pub(crate) fn variables(unit: &Unit, home: Option<&Path>) -> Vec<(String, String)> {
    let Some(user) = &unit.account.user else { return vec![] };
    let mut variables = vec![("USER".to_owned(), user.clone()), ("LOGNAME".to_owned(), user.clone())];
    variables.extend(home.map(|home| ("HOME".to_owned(), home.display().to_string())));
    variables
}

/// The directory that a unit's program starts in.
pub(crate) fn working_directory(unit: &Unit, home: Option<&Path>) -> Option<PathBuf> {
    match unit.surroundings.working_directory.as_deref()?.trim_start_matches(['!', '-']) {
        "~" => home.map(Path::to_owned),
        path => Some(PathBuf::from(path)),
    }
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The fields of the line that has `account`.
fn entry(text: &str, account: &Account) -> Option<Vec<String>> {
    let fields = text.lines().map(|line| line.split(':').map(str::to_owned).collect::<Vec<_>>());
    fields.filter(|fields| fields.len() > 3).find(|fields| match account {
        Account::Name(name) => fields[0] == *name,
        Account::Id(id) => fields[2] == id.to_string(),
    })
}
