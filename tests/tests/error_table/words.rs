//! What is the same every time a program speaks: what differs from run to run is replaced by its name.

use myriarch_tests::machine::Machine;
use regex_lite::Regex;

/// What is replaced in words said on one machine. Nothing else is.
#[derive(Debug)]
pub(crate) struct Words(Vec<(Regex, &'static str)>);

impl Words {
    pub(crate) fn on(machine: &Machine) -> Self {
        let literal = |text: &str| regex_lite::escape(text);
        let path = literal(&machine.path().to_string_lossy());
        let rules = [
            (format!("{path}/store"), "<store>"),
            (path, "<machine>"),
            (literal(&machine.server().url()), "<server>"),
            (format!(r"\b{}\b", machine.health_port()), "<port>"),
            (r"\b[0-9a-f]{64}\b".to_owned(), "<sha256>"),
            (r"((?:0\.9|1\.[01])\.0)-[0-9a-f]{12}\b".to_owned(), "$1-<sha256, 12 digits>"),
            (r"\bsha256 [0-9a-f]{12}\b".to_owned(), "sha256 <12 digits>"),
            (r"\b(staging-)[0-9a-f]{16}\b".to_owned(), "${1}<random>"),
            (r"\bpartial/[0-9a-f]{16}-".to_owned(), "partial/<source>-"),
            (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z".to_owned(), "<time>"),
            (r"\b(pid|process) \d+\b".to_owned(), "$1 <pid>"),
            (r"/tmp/stand-in-impostor-\d+".to_owned(), "<another program>"),
            (r"this machine is \w+".to_owned(), "this machine is <architecture>"),
            (r"has at most GLIBC_[\d.]+".to_owned(), "has at most GLIBC_<version>"),
            (r"/\S+/ld-\S+\.so\.9\b".to_owned(), "<loader>"),
            (r"\bof user \d+".to_owned(), "of user <uid>"),
            (r"(?m)^downtime: .*$".to_owned(), "downtime: <duration>"),
        ];
        Self(rules.into_iter().map(|(rule, name)| (Regex::new(&rule).expect("a regex"), name)).collect())
    }

    pub(crate) fn normal(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (rule, name)| rule.replace_all(&text, *name).into_owned())
    }
}

/// The last words of a verb, behind the progress that it told.
pub(crate) fn last(said: &str) -> Option<&str> {
    let begins = |line: &str| line.starts_with("error: ") || line.starts_with("rolled back: ");
    let mut at = 0;
    for line in said.split_inclusive('\n') {
        if begins(line) {
            return Some(&said[at..]);
        }
        at += line.len();
    }
    None
}
