//! Redaction: no secret of the program's is ever quoted.
//!
//! What a collector says on its way down is the best there is to learn from it, and it says it with its tokens in
//! it. So everything quoted from the program passes through here before anybody is told, before the journal and
//! before a file is written; there is no level at which it does not. Two things are looked for: what is known to be
//! secret, since the environment or the effective configuration has it under a name that says so, and what looks it
//! wherever it stands, by its form. Rather a harmless word too many is lost than a secret told.

mod known;
mod patterns;
mod random;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fmt,
};

/// What stands in a secret's place.
pub const REDACTED: &str = "<redacted>";

/// Shorter values are not looked for: they are parts of ordinary words.
const SHORTEST: usize = 4;

/// Takes secrets out of text.
#[derive(Clone, Default)]
pub struct Redactor {
    environment: BTreeMap<String, String>,
    known: BTreeSet<String>,
}

impl Redactor {
    /// Knows also the variables that the program runs with: those whose names look secret are.
    #[must_use]
    pub fn with_environment(mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        for (name, value) in variables {
            let (name, value) = (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned());
            if known::looks_secret(&name) {
                self.learn(&value);
            }
            self.learn_passwords_of_urls(&value);
            self.environment.insert(name, value);
        }
        self
    }

    /// Knows also the program's configuration: what stands under a key that looks secret is, however deep, and so
    /// are the variables that are put in there. Variables must be known before.
    #[must_use]
    pub fn with_configuration(mut self, text: &str) -> Self {
        for secret in known::of_configuration(text) {
            for name in known::variables(&secret) {
                if let Some(value) = self.environment.get(name).cloned() {
                    self.learn(&value);
                }
            }
            self.learn(&secret);
        }
        self.learn_passwords_of_urls(text);
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
                text = text.replace(secret.as_str(), REDACTED);
            }
        }
        random::redact(&patterns::redact(&text))
    }

    fn learn(&mut self, value: &str) {
        // Several in one, as in `name=value,other=value`.
        let pairs = value.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '&'));
        let words = pairs.flat_map(|pair| [pair, pair.split_once('=').map_or("", |(_, value)| value)]);
        let words = words.filter(|word| word.len() >= 2 * SHORTEST);
        let lines = value.lines().map(str::trim).filter(|line| line.len() >= 2 * SHORTEST);
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
            _ => (none(), format!("Basic {secret}")),
        }
    }

    proptest! {
        /// Whatever the secret and wherever it stands, it is not in what is told.
        #[test]
        fn a_secret_never_gets_through(
            position in 0..15_usize,
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
