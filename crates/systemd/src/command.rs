//! A command of a unit, as `systemctl show` prints it.

use std::path::PathBuf;

/// One line of `ExecStart=` or its likes.
///
/// systemd joins the arguments by blanks when it shows them and quotes none: one with a blank in it looks like two.
/// Where the unit runs, `/proc/<pid>/cmdline` has them as they are; where the words of the unit's file joined are
/// the same text, those are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The executable file.
    pub path: PathBuf,
    /// The arguments, the program's own name first: what is shown, split at blanks. Variables such as `$OPTIONS` are
    /// not replaced yet, specifiers such as `%i` are.
    pub argv: Vec<String>,
    /// What is shown, as it is.
    pub shown: String,
    /// Whether its failure counts for nothing: a `-` stood before it.
    pub ignore_failure: bool,
}

impl Command {
    /// Reads `{ path=… ; argv[]=… ; ignore_errors=no ; … }`. The arguments may hold anything, ` ; ` as well, so that
    /// what follows them is looked for from the end.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("{ path=")?;
        let (path, rest) = rest.split_once(" ; argv[]=")?;
        let (shown, rest) = rest.rsplit_once(" ; ignore_errors=")?;
        Some(Self {
            path: PathBuf::from(path),
            argv: shown.split_ascii_whitespace().map(str::to_owned).collect(),
            shown: shown.to_owned(),
            ignore_failure: rest.starts_with("yes"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_read_whatever_its_arguments_hold() {
        let text = "{ path=/usr/bin/python3 ; argv[]=/usr/bin/python3 -c import time; a ; ignore_errors=yes ; b \
                    ; ignore_errors=no ; start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }";
        let command = Command::parse(text).unwrap();
        assert_eq!(command.path, PathBuf::from("/usr/bin/python3"));
        assert_eq!(command.shown, "/usr/bin/python3 -c import time; a ; ignore_errors=yes ; b");
        assert_eq!(command.argv[1..4], ["-c", "import", "time;"]);
        assert!(!command.ignore_failure);
        let text = "{ path=/bin/echo ; argv[]=/bin/echo pre one ; ignore_errors=yes ; start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }";
        assert!(Command::parse(text).unwrap().ignore_failure);
        assert_eq!(Command::parse("(null)"), None);
    }
}
