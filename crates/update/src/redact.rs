//! Redaction: no secret of the program's is ever quoted.
//!
//! What a collector says on its way down is the best there is to learn from it, and it says it with its tokens in
//! it. So everything quoted from the program passes through here before anybody is told, before the journal and
//! before a file is written; there is no level at which it does not. Two things are looked for: what is known to be
//! secret, since the environment or the effective configuration has it under a name that says so, and what looks it
//! wherever it stands, by its form. Rather a harmless word too many is lost than a secret told.

mod expansion;
mod known;
mod patterns;
mod random;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

use self::expansion::Reference;
use crate::{effective, regular};

/// What stands in a secret's place.
pub const REDACTED: &str = "<redacted>";

/// Shorter values are not looked for: they are parts of ordinary words.
const SHORTEST: usize = 4;

/// Values shorter than this are taken for words, and looked for as such.
const SHORTEST_PART: usize = 2 * SHORTEST;

/// How often what is put in may hold what is put in.
const DEEPEST: usize = 8;

/// Where a program says what its shell's directory is. In a connection string the first is a password.
const DIRECTORIES: [&str; 2] = ["PWD", "OLDPWD"];

/// Takes secrets out of text.
#[derive(Clone, Default)]
pub struct Redactor {
    known: BTreeSet<String>,
    /// Apart, since a redactor is held by many a future.
    learning: Box<Learning>,
}

/// What is needed to learn of secrets, and not to take them out.
#[derive(Clone, Default)]
struct Learning {
    environment: BTreeMap<String, String>,
    /// Where relative paths begin; the root where it is not known.
    directory: Option<PathBuf>,
    /// What was put in already, so that nothing is twice.
    resolved: BTreeSet<(String, Kind)>,
    /// Bytes that were put in so far.
    expanded: usize,
}

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Secret,
    Configuration,
}

impl Redactor {
    /// Knows also the variables that the program runs with: those whose names look secret are.
    #[must_use]
    pub fn with_environment(mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        for (name, value) in variables {
            let (name, value) = (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned());
            if known::looks_secret(&name) && !DIRECTORIES.contains(&&*name) {
                self.learn(&value);
            }
            self.learn_passwords_of_urls(&value);
            self.learning.environment.insert(name, value);
        }
        self
    }

    /// Knows where the program's relative paths begin.
    pub(crate) fn with_directory(mut self, directory: Option<&Path>) -> Self {
        self.learning.directory = directory.map(Path::to_owned);
        self
    }

    /// Knows also every configuration that the program's arguments name, whatever scheme names it, and what they set
    /// by themselves. Variables and directory must be known before.
    pub(crate) fn with_arguments(mut self, arguments: &[OsString]) -> Self {
        for value in effective::values_of("config", arguments) {
            let text = match Reference::of(&value.to_string_lossy()) {
                Reference::File(path) => self.read(path),
                Reference::Text(text) => Some(text.to_owned()),
                // Without a scheme it is a path here.
                Reference::Variable { name, .. } => match value.to_string_lossy().strip_prefix("env:") {
                    Some(_) => self.learning.environment.get(name).cloned(),
                    None => self.read(&value.to_string_lossy()),
                },
                Reference::Unknown => None,
            };
            if let Some(text) = text {
                self.learn_configuration(&text, 0);
            }
        }
        for value in effective::values_of("set", arguments) {
            let value = value.to_string_lossy();
            if let Some((name, value)) = value.split_once('=')
                && known::looks_secret(name)
            {
                self.learn_secret(value, 0);
            }
        }
        self
    }

    /// Knows also the program's configuration: what stands under a key that looks secret is, however deep, and so
    /// are the variables and files that are put in there. Variables and directory must be known before.
    #[must_use]
    pub fn with_configuration(mut self, text: &str) -> Self {
        self.learn_configuration(text, 0);
        self
    }

    /// `text` without secrets.
    pub fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // The longest first: a part that is known by itself must not spoil the whole.
        let mut known: Vec<&String> = self.known.iter().collect();
        known.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        for secret in known {
            if text.contains(secret.as_str()) {
                text = if secret.len() < SHORTEST_PART {
                    replace_word(&text, secret)
                } else {
                    text.replace(secret.as_str(), REDACTED)
                };
            }
        }
        random::redact(&patterns::redact(&text))
    }

    fn learn_configuration(&mut self, text: &str, depth: usize) {
        let told = known::of_configuration(text);
        for secret in told.secrets {
            self.learn_secret(&secret, depth);
        }
        for template in told.templates {
            self.put_in(&template, Kind::Configuration, depth);
        }
        self.learn_passwords_of_urls(text);
    }

    /// As it is written, as it is with everything put in, and each part of it that is put in.
    fn learn_secret(&mut self, text: &str, depth: usize) {
        self.learn(text);
        for part in known::of_secret(text) {
            self.learn(&part);
        }
        if text.contains('$') {
            let whole = self.put_in(text, Kind::Secret, depth);
            self.learn(&whole);
        }
    }

    /// `text` with everything put in; what that is is learned, as parts of a text of this kind.
    fn put_in(&mut self, text: &str, kind: Kind, depth: usize) -> String {
        let mut parts: Vec<String> = vec![];
        let whole = expansion::expand(text, |inside| {
            if self.learning.expanded as u64 > regular::LIMIT {
                return None;
            }
            let values = self.values_of(inside);
            self.learning.expanded += values.iter().map(String::len).sum::<usize>();
            if self.learning.resolved.insert((inside.to_owned(), kind)) {
                parts.extend(values.iter().cloned());
            }
            values.into_iter().next()
        });
        for part in parts.iter().filter(|_| depth < DEEPEST) {
            match kind {
                Kind::Secret => self.learn_secret(part, depth + 1),
                Kind::Configuration => self.learn_configuration(part, depth + 1),
            }
        }
        whole
    }

    /// What may be put in the place of `${inside}`, what is first.
    fn values_of(&self, inside: &str) -> Vec<String> {
        let values = match Reference::of(inside) {
            Reference::Variable { name, default } => {
                [self.learning.environment.get(name).cloned(), default.map(str::to_owned)]
            }
            Reference::File(path) => [self.read(path), None],
            Reference::Text(text) => [Some(text.to_owned()), None],
            Reference::Unknown => [None, None],
        };
        values.into_iter().flatten().map(|value| value.trim().to_owned()).collect()
    }

    fn read(&self, path: &str) -> Option<String> {
        regular::beginning(&self.learning.directory.as_deref().unwrap_or(Path::new("/")).join(path)).ok()
    }

    fn learn(&mut self, value: &str) {
        // Several in one, as in `name=value,other=value`.
        let pairs = value.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '&'));
        let harmless = |pair: &&str| pair.split_once('=').is_none_or(|(name, _)| !known::is_harmless(name));
        let words = pairs
            .filter(harmless)
            .flat_map(|pair| [pair, pair.split_once('=').map_or("", |(_, value)| value)]);
        let words = words.filter(|word| word.len() >= SHORTEST_PART);
        let lines = value.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_PART);
        let candidates: BTreeSet<&str> = std::iter::once(value.trim()).chain(lines).chain(words).collect();
        for secret in candidates {
            // A template names secrets and is none.
            let harmless = ["true", "false", "null", "none", "Bearer", "Basic"];
            if secret.len() < SHORTEST || harmless.contains(&secret) || secret.starts_with("${") {
                continue;
            }
            self.known.extend(known::spellings(secret));
        }
    }

    fn learn_passwords_of_urls(&mut self, text: &str) {
        for password in patterns::passwords_of_urls(text) {
            self.learn(&password);
        }
    }
}

/// `text` without `secret`, where it stands for itself: in a longer word it is a part of that one.
fn replace_word(text: &str, secret: &str) -> String {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in text.match_indices(secret) {
        let (before, after) = (&text[..at], &text[at + secret.len()..]);
        let begins = !(secret.starts_with(part) && before.ends_with(part)) || ends_with_escape(before);
        let ends = !(secret.ends_with(part) && after.starts_with(part));
        if begins && ends {
            out.push_str(&text[done..at]);
            out.push_str(REDACTED);
            done = at + secret.len();
        }
    }
    out.push_str(&text[done..]);
    out
}

/// Whether the letters before a word belong to a sign that is written as such: `\n`, `%20`, `\u0026`.
fn ends_with_escape(before: &str) -> bool {
    let hexadecimal = |digits: usize, sign: &str| {
        let begin = before.len().checked_sub(digits).filter(|at| before.is_char_boundary(*at));
        begin.is_some_and(|at| {
            before[..at].ends_with(sign) && before[at..].chars().all(|c| c.is_ascii_hexdigit())
        })
    };
    ["\\n", "\\r", "\\t"].iter().any(|escape| before.ends_with(escape))
        || hexadecimal(2, "%")
        || hexadecimal(4, "\\u")
}

/// Says how much it knows, and nothing of what.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn redacted(text: &str) -> String {
        Redactor::default().redact(text)
    }

    #[test]
    fn what_is_no_secret_stays_as_it_was() {
        for text in [
            "panic: crash on start",
            "Error: failed to get config: cannot unmarshal the configuration: decoding failed due to the following error(s):\n\n'receivers' unknown type: \"nosuch\" for id: \"nosuch\" (valid values: [otlp])",
            "2026-11-30T11:42:07.687Z\tinfo\tservice@v0.158.0/service.go:234\tStarting otelcol-testbed...\t{\"Version\": \"0.158.0\", \"NumCPU\": 2}",
            "goroutine 1 [running]:\ngithub.com/open-telemetry/opentelemetry-collector-contrib/extension/crash.(*extension).Start(0xc0001a2b40, {0x2e4b1d0, 0xc000a7c000})\n\t/tmp/build/go/pkg/mod/go.opentelemetry.io/collector/service@v0.158.0/internal/graph/graph.go:431 +0x1d2",
            "listen tcp 127.0.0.1:4317: bind: address already in use",
            "http://127.0.0.1:13133/: Connection refused (os error 111)",
            "store /opt/myriarch/otelcol/versions/0.165.1-7623348c295e/bin/otelcol-contrib_0.165.1_linux_amd64",
            "duplicate key: receivers; 'exporters' has invalid keys: keepalives",
            "the key file /etc/ssl/private.pem: no such file (private_key_file: /etc/ssl/private.pem)",
        ] {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn what_looks_secret_by_its_form_is_taken_out() {
        for (text, expected) in [
            ("password=hunter2 ok", "password=<redacted> ok"),
            ("{\"api_key\": \"hun ter2\", \"a\": 1}", "{\"api_key\": \"<redacted>\", \"a\": 1}"),
            ("{\\\"api_key\\\": \\\"hun ter2\\\", 1}", "{\\\"api_key\\\": \\\"<redacted>\\\", 1}"),
            ("client_secret: 'it''s', more", "client_secret: '<redacted>', more"),
            ("Authorization: Digest username=u, x=y\nnext", "Authorization: <redacted>\nnext"),
            ("got Bearer abc.def, want", "got Bearer <redacted>, want"),
            ("headers:map[x-scope:abc y:z] rest", "headers:<redacted> rest"),
            ("headers:\n    x-scope: abc\n    y: z\nexporters: ok", "headers:<redacted>\nexporters: ok"),
            ("--set=exporters.otlp.headers.x=abc", "--set=exporters.otlp.headers.x=<redacted>"),
            ("started with --password hunter2 -v", "started with --password <redacted> -v"),
            ("postgres://u:p/a@ss@db:5432/x failed", "postgres://<redacted>@db:5432/x failed"),
            ("GET https://h/p?sig=abc&x=1: 403", "GET https://h/p?<redacted> 403"),
            ("GET https://u:p?q@h/p?sig=abc", "GET https://<redacted>@h/p?<redacted>"),
            ("a -----BEGIN PRIVATE KEY-----\nabc\ndef\n-----END PRIVATE KEY----- b", "a <redacted> b"),
            ("ghp_a1b2c3d4e5f6a7b8c9d0e1f2a3 is", "<redacted> is"),
        ] {
            assert_eq!(redacted(text), expected, "{text}");
        }
    }

    #[test]
    fn a_block_that_begins_before_the_excerpt_is_taken_out_too() {
        let text = "Zm9vYmFy\nAbCd==\n-----END RSA PRIVATE KEY-----\nthen";
        assert_eq!(redacted(text), "<redacted>\nthen");
    }

    #[test]
    fn a_redactor_tells_nobody_what_it_knows() {
        let redactor = Redactor::default().with_environment([("TOKEN".into(), "hunter2hunter2".into())]);
        assert!(!format!("{redactor:?}").contains("hunter2"));
    }

    fn arguments(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    /// Learned from the configuration `first`, beside which is a file with `bytes`; where that is empty, from both.
    fn in_files(name: &str, bytes: &[u8], first: &str) -> Redactor {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(name), bytes).unwrap();
        std::fs::write(dir.path().join("first"), first).unwrap();
        let arguments = if first.is_empty() {
            arguments(&["--config", "first", &format!("--config=file:{name}")])
        } else {
            arguments(&["--config", "first"])
        };
        Redactor::default().with_directory(Some(dir.path())).with_arguments(&arguments)
    }

    #[test]
    fn the_shells_directory_is_no_secret_and_a_password_of_that_name_is() {
        let redactor = Redactor::default().with_environment([
            ("PWD".into(), "/opt/myriarch".into()),
            ("OLDPWD".into(), "/var/lib/other".into()),
            ("MYSQL_PWD".into(), "hunter2hunter2".into()),
        ]);
        let text = "open /opt/myriarch/a: no such file, nor /var/lib/other";
        assert_eq!(redactor.redact(text), text);
        assert_eq!(redactor.redact("hunter2hunter2"), REDACTED);
    }

    #[test]
    fn a_short_secret_is_replaced_where_it_stands_for_itself() {
        let redactor = Redactor::default().with_configuration("passwords: [host, 'level']");
        for (text, expected) in [
            ("localhost hosts ghost_host", "localhost hosts ghost_host"),
            ("host, x=host \"host\"", "<redacted>, x=<redacted> \"<redacted>\""),
            ("a\\nhost b%20host c\\u0026level", "a\\n<redacted> b%20<redacted> c\\u0026<redacted>"),
        ] {
            assert_eq!(redactor.redact(text), expected);
        }
    }

    #[test]
    fn names_in_a_configuration_and_known_headers_stay() {
        let redactor = Redactor::default()
            .with_environment([(
                "OTEL_HEADERS".into(),
                "content-type=application/json,x=hunter2hunter2".into(),
            )])
            .with_configuration(
                "processors: {attributes: {actions: [{key: hostname.full}]}}\n\
                 exporters: {otlp: {headers: {Content-Type: application/json}}}",
            );
        let text = "hostname.full of application/json";
        assert_eq!(redactor.redact(text), text);
        assert_eq!(redactor.redact("hunter2hunter2"), REDACTED);
    }

    #[test]
    fn a_secret_is_known_in_the_spellings_of_go() {
        let redactor = Redactor::default().with_environment([("PASSWORD".into(), "a<b>&c d=e@f".into())]);
        for said in [
            r"a<b>&c d=e@f",
            r"a\u003cb\u003e\u0026c d=e@f",
            "a%3Cb%3E%26c+d%3De%40f",
            "a%3Cb%3E%26c%20d%3De%40f",
            "a%3Cb%3E&c%20d=e@f",
        ] {
            assert_eq!(redactor.redact(&format!("({said})")), "(<redacted>)");
        }
    }

    #[test]
    fn a_configuration_that_puts_in_itself_comes_to_an_end() {
        let redactor = in_files("loop", b"a: {token: '${file:loop}${file:loop}'}\nb: ${file:loop}", "");
        assert_eq!(redactor.redact("fine"), "fine");
        let redactor = Redactor::default()
            .with_environment([("A".into(), "${env:A}${env:B}hunter2".repeat(99).into())])
            .with_configuration("token: ${env:A}");
        assert_eq!(redactor.redact("fine"), "fine");
    }

    /// Where a secret can stand: how a redactor learns of it, and what the program says.
    fn said(position: usize, secret: &str) -> (Redactor, String) {
        let env =
            |name: &str, value: &str| Redactor::default().with_environment([(name.into(), value.into())]);
        let quoted = serde_json::to_string(secret).unwrap();
        let none = Redactor::default;
        match position {
            0 => (env("DB_PASSWORD", secret), format!("cannot log in with {secret} as admin")),
            1 => (env("OTLP_HEADERS", &format!("x={secret},y=1")), format!("header {secret}!")),
            2 => (
                none().with_configuration(&format!("a: {{b: [{{c: {{password: {quoted}}}}}]}}")),
                format!("<{secret}>"),
            ),
            3 => (
                none().with_configuration(&format!(
                    "exporters:\n  otlp:\n    headers:\n      deep: [{quoted}]\n"
                )),
                format!("dumped {quoted}"),
            ),
            4 => (
                env("INNOCENT", secret).with_configuration("x: {token: '${env:INNOCENT}'}"),
                format!("rejected {secret}."),
            ),
            5 => (none(), format!("\"access_token\": {quoted}, rest")),
            6 => (none(), format!("msg=\"no\" api-key={secret} more")),
            7 => (none(), format!("Authorization: Bearer {secret}")),
            8 => (none(), format!("https://user:{secret}@host/x")),
            9 => (none(), format!("GET https://host/x?token={secret}: 403")),
            10 => (none(), format!("-----BEGIN X-----\n{secret}\n-----END X-----")),
            11 => (none(), format!("{{\\\"secret\\\":\\\"{secret}\\\"}}")),
            13 => (none(), format!("GET https://user:pass@host/x?token={secret}: 403")),
            12 => (env("X", &format!("https://user:{secret}@host/x")), format!("user, {secret}, host")),
            // Only both parts together are the secret.
            15 => (
                env("TENANT", &secret[..2]).with_configuration(&format!(
                    "x: {{token: '${{env:TENANT}}{}'}}",
                    secret[2..].replace('$', "$$")
                )),
                format!("rejected {secret}."),
            ),
            16 => (
                none().with_configuration(&format!(
                    "x: {{token: '${{env:UNSET:-{}}}'}}",
                    secret.replace('$', "$$")
                )),
                format!("rejected {secret}."),
            ),
            17 => (
                env("MORE", &format!("x: {{token: {quoted}}}"))
                    .with_arguments(&arguments(&["--config", "/absent", "--config", "env:MORE"])),
                format!("rejected {secret}."),
            ),
            18 => (
                none().with_arguments(&arguments(&[
                    "--config=/absent",
                    &format!("--config=yaml:exporters::otlp::headers::x: {quoted}"),
                ])),
                format!("rejected {secret}."),
            ),
            19 => (
                none().with_arguments(&arguments(&["--set", &format!("x.password={secret}")])),
                format!("rejected {secret}."),
            ),
            20 => (
                in_files("secret", secret.as_bytes(), "x: {token: '${file:secret}'}"),
                format!("rejected {secret}."),
            ),
            21 => {
                let bytes = [b"# \xff\nx: {password: ", quoted.as_bytes(), b"}\n"].concat();
                (in_files("second", &bytes, ""), format!("rejected {secret}."))
            }
            22 => {
                let part = format!("x: {{password: {quoted}}}");
                (
                    in_files("part", part.as_bytes(), "exporters: '${file:part}'"),
                    format!("rejected {secret}."),
                )
            }
            _ => (none(), format!("Basic {secret}")),
        }
    }

    proptest! {
        /// Whatever the secret and wherever it stands, it is not in what is told.
        #[test]
        fn a_secret_never_gets_through(
            position in 0..24_usize,
            secret in "[A-Za-z0-9+/=_.~!$%^*-]{8,40}",
            before in "[a-z :\n]{0,20}",
        ) {
            let (redactor, text) = said(position, &secret);
            let text = redactor.redact(&format!("{before}\n{text}\nafter"));
            prop_assert!(!text.contains(&secret), "{text}");
            prop_assert!(text.ends_with("\nafter"), "what follows stays: {text}");
        }

        /// A word that no human would have chosen needs no name.
        #[test]
        fn a_long_random_word_never_gets_through(secret in "([A-Za-z]{1,3}[0-9]{1,2}){12,16}") {
            let text = redacted(&format!("it is {secret}, so"));
            prop_assert!(!text.contains(&secret), "{text}");
        }

        /// Any text at all is taken, and nothing is told of one that is already clean.
        #[test]
        fn redacting_twice_changes_nothing_more(text in "\\PC{0,200}") {
            let once = redacted(&text);
            prop_assert_eq!(redacted(&once), once);
        }
    }
}
