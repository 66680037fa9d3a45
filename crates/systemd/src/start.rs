//! How a unit would start its program: the words of its command and its environment, as systemd makes them of the
//! unit's properties and files at the moment of a start (systemd.exec(5), systemd.service(5)).
//!
//! The program that runs tells all this itself, and better. Here is what is left where none runs.

use std::{collections::BTreeMap, fs, io, path::PathBuf};

use crate::{
    environment_file::{environment_file, is_variable},
    properties::words,
    unit::{EnvironmentFile, Unit},
    written::written,
};

/// What a program finds in `PATH` where nothing says otherwise.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A start as it would be now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartCommand {
    /// The executable file.
    pub path: PathBuf,
    /// The arguments without the program's own name, variables replaced.
    pub arguments: Vec<String>,
    /// The environment. Without what systemd makes up for each run.
    pub environment: BTreeMap<String, String>,
}

/// An `EnvironmentFile=` that cannot be read and is not optional: systemd would not start the program.
#[derive(Debug, thiserror::Error)]
#[error("{unit}: expected the environment file {}", path.display())]
pub struct EnvironmentFileError {
    unit: String,
    path: PathBuf,
    source: io::Error,
}

impl Unit {
    /// The start that systemd would make now; none where the unit has no command. `account` adds what systemd sets
    /// for a user: `HOME`, `USER`, …
    ///
    /// # Errors
    /// Where an environment file that is needed cannot be read.
    pub fn start_command(
        &self,
        account: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Option<StartCommand>, EnvironmentFileError> {
        let Some(command) = self.exec_start.last() else { return Ok(None) };
        let mut environment = BTreeMap::from([("PATH".to_owned(), SEARCH_PATH.to_owned())]);
        environment.extend(account);
        environment.extend(self.surroundings.environment.iter().cloned());
        for file in &self.surroundings.environment_files {
            match file.assignments() {
                Ok(assignments) => environment.extend(assignments),
                Err(_) if file.optional => {}
                Err(source) => {
                    let (unit, path) = (self.name.to_string(), file.path.clone());
                    return Err(EnvironmentFileError { unit, path, source });
                }
            }
        }
        let argv = written(self, command).unwrap_or_else(|| command.argv.clone());
        let arguments = argv.iter().skip(1).flat_map(|word| replaced(word, &environment)).collect();
        Ok(Some(StartCommand { path: command.path.clone(), arguments, environment }))
    }
}

impl EnvironmentFile {
    /// What it assigns now, in order; the last of a name counts. Wildcards in its name stand for every file that there
    /// is, in order.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn assignments(&self) -> io::Result<Vec<(String, String)>> {
        let name = self.path.to_string_lossy();
        if !name.contains(['*', '?', '[']) {
            return Ok(environment_file(&fs::read_to_string(&self.path)?));
        }
        let mut found = vec![];
        for path in glob::glob(&name).into_iter().flatten().flatten() {
            found.extend(environment_file(&fs::read_to_string(path)?));
        }
        Ok(found)
    }
}

/// One word of a command: `$NAME` alone becomes as many words as its value has, `${NAME}` within a word its value,
/// `$$` a dollar sign; what is not set is nothing.
fn replaced(word: &str, environment: &BTreeMap<String, String>) -> Vec<String> {
    if let Some(name) = word.strip_prefix('$').filter(|name| is_variable(name)) {
        return environment.get(name).map(|value| words(value)).unwrap_or_default();
    }
    let mut whole = String::new();
    let mut rest = word;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        whole.push_str(before);
        let variable = from.strip_prefix("${").and_then(|inner| inner.split_once('}'));
        rest = match variable {
            Some((name, after)) if is_variable(name) => {
                whole.push_str(environment.get(name).map_or("", String::as_str));
                after
            }
            _ => {
                whole.push('$');
                from.strip_prefix("$$").unwrap_or(&from[1..])
            }
        };
    }
    whole.push_str(rest);
    vec![whole]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_as_systemd_replaces_them() {
        let environment = BTreeMap::from([
            ("OPTS".to_owned(), "--a=1 '--b=two words'".to_owned()),
            ("B".to_owned(), "two words".to_owned()),
            ("EMPTY".to_owned(), String::new()),
        ]);
        for (word, expected) in [
            ("$OPTS", vec!["--a=1", "--b=two words"]),
            ("${OPTS}", vec!["--a=1 '--b=two words'"]),
            ("--x=${B}!", vec!["--x=two words!"]),
            ("$EMPTY", vec![]),
            ("${EMPTY}", vec![""]),
            ("$NONE", vec![]),
            ("x$B", vec!["x$B"]),
            ("$$B", vec!["$B"]),
            ("a$", vec!["a$"]),
            ("${1}", vec!["${1}"]),
        ] {
            assert_eq!(replaced(word, &environment), expected, "{word}");
        }
    }

    #[test]
    fn files_win_over_the_unit_and_the_last_file_over_all() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let (one, two) = (file("1.env", "A=one\nB=one\n"), file("2.env", "B=two\n"));
        let (none, many) = (dir.path().join("none").display().to_string(), dir.path().join("*.env"));
        let text = include_str!("../tests/recorded/running.txt");
        let files = |lines: &[String]| -> Unit {
            let others = text.lines().filter(|line| !line.starts_with("EnvironmentFiles="));
            let lines = lines.iter().map(String::as_str);
            Unit::parse(&others.chain(lines).collect::<Vec<_>>().join("\n")).unwrap()
        };
        let optional = format!("EnvironmentFiles={none} (ignore_errors=yes)");
        let unit = files(&[
            format!("EnvironmentFiles={one} (ignore_errors=no)"),
            format!("EnvironmentFiles={two} (ignore_errors=no)"),
            optional.clone(),
        ]);
        let start = unit.start_command([("HOME".to_owned(), "/".to_owned())]).unwrap().unwrap();
        let value = |name: &str| start.environment.get(name).map(String::as_str);
        assert_eq!(
            (value("A"), value("B"), value("G"), value("HOME")),
            (Some("one"), Some("two"), Some("a;b"), Some("/"))
        );
        let unit = files(&[format!("EnvironmentFiles={} (ignore_errors=no)", many.display())]);
        assert_eq!(unit.start_command([]).unwrap().unwrap().environment["B"], "two");
        let error = files(&[optional.replace("yes", "no")]).start_command([]).unwrap_err();
        assert_eq!(error.to_string(), format!("probe.service: expected the environment file {none}"));
    }
}
