//! Texts with `{placeholders}`: URLs, identities, and the program's path in arguments.

use std::{ffi::OsString, path::Path};

use super::{section::nearest, url::hiding};

/// Checks that every `{…}` in `template` is one of `known`.
pub(crate) fn check(template: &str, known: &[&str]) -> Result<(), String> {
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        let braced = rest[at..].strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let Some((name, tail)) = braced else {
            return Err(format!("expected braces in pairs, found {:?}", hiding(template)));
        };
        if !known.contains(&name) {
            let list = known.iter().map(|name| format!("{{{name}}}")).collect::<Vec<_>>().join(", ");
            let meant = nearest(name, known).map(|near| format!("; did you mean {{{near}}}?"));
            return Err(format!("expected only {list}, found {{{name}}}{}", meant.unwrap_or_default()));
        }
        rest = tail;
    }
    Ok(())
}

/// `text` with every `{program}` replaced by the program's path. Other braces are the argument's own.
pub fn with_program(text: &str, program: &Path) -> OsString {
    let mut out = OsString::new();
    for (index, part) in text.split("{program}").enumerate() {
        if index > 0 {
            out.push(program);
        }
        out.push(part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_placeholders_pass() {
        let known = ["version", "os"];
        assert_eq!(check("https://h/v{version}/{os}_{version}", &known), Ok(()));
        assert_eq!(check("no placeholder", &known), Ok(()));
        let unknown = check("https://h/{versoin}", &known).unwrap_err();
        assert_eq!(unknown, "expected only {version}, {os}, found {versoin}; did you mean {version}?");
        for broken in ["{version", "version}", "{ver{version}", "}{"] {
            assert!(check(broken, &known).is_err(), "{broken}");
        }
    }

    #[test]
    fn the_program_replaces_its_placeholder_and_nothing_else() {
        let program = Path::new("/opt/x/current/bin/otelcol");
        assert_eq!(with_program("{program}", program), "/opt/x/current/bin/otelcol");
        assert_eq!(
            with_program("exec={program} {json: 1}", program),
            "exec=/opt/x/current/bin/otelcol {json: 1}"
        );
        assert_eq!(with_program("plain", program), "plain");
    }
}
