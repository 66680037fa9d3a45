//! What a collector puts in the place of `${…}` in its configuration.

/// The longest text that an expansion may become, in bytes: what is longer is no secret.
const LONGEST: usize = 1024 * 1024;

/// What stands between `${` and `}`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reference<'a> {
    /// `env:NAME`, `NAME` and `env:NAME:-default`.
    Variable { name: &'a str, default: Option<&'a str> },
    /// `file:PATH`.
    File(&'a str),
    /// `yaml:TEXT`.
    Text(&'a str),
    /// A scheme that nothing is known of.
    Unknown,
}

impl<'a> Reference<'a> {
    pub(super) fn of(inside: &'a str) -> Self {
        let scheme = inside.split_once(':').filter(|(scheme, rest)| {
            scheme.len() > 1 && scheme.chars().all(|c| c.is_ascii_alphanumeric()) && !rest.starts_with('-')
        });
        let name = match scheme {
            Some(("file", path)) => return Self::File(path),
            Some(("yaml", text)) => return Self::Text(text),
            Some(("env", name)) => name,
            Some(_) => return Self::Unknown,
            None => inside,
        };
        match name.split_once(":-") {
            Some((name, default)) => Self::Variable { name, default: Some(default) },
            None => Self::Variable { name, default: None },
        }
    }
}

/// `text` with every `${…}` replaced by what `resolve` says of its inside, the innermost first. What it does not know
/// stays; `$$` is a dollar sign.
pub(super) fn expand(text: &str, mut resolve: impl FnMut(&str) -> Option<String>) -> String {
    let mut open: Vec<String> = vec![];
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        if open.last().unwrap_or(&out).len() > LONGEST {
            break;
        }
        let closed = if c == '}' { open.pop() } else { None };
        let into = open.last_mut().unwrap_or(&mut out);
        if let Some(inside) = closed {
            let value = resolve(&inside).unwrap_or_else(|| ["${", &inside, "}"].concat());
            into.push_str(&value);
        } else if rest.starts_with("$$") {
            taken = 2;
            into.push('$');
        } else if rest.starts_with("${") {
            taken = 2;
            open.push(String::new());
        } else {
            into.push(c);
        }
        rest = &rest[taken..];
    }
    for unclosed in open {
        out.push_str("${");
        out.push_str(&unclosed);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_as_the_collector_reads_them() {
        let variable = |name, default| Reference::Variable { name, default };
        assert_eq!(Reference::of("env:A"), variable("A", None));
        assert_eq!(Reference::of("A"), variable("A", None));
        assert_eq!(Reference::of("A:-b:c"), variable("A", Some("b:c")));
        assert_eq!(Reference::of("env:A:-"), variable("A", Some("")));
        assert_eq!(Reference::of("file:/a:b"), Reference::File("/a:b"));
        assert_eq!(Reference::of("yaml:a: b"), Reference::Text("a: b"));
        assert_eq!(Reference::of("https://x"), Reference::Unknown);
    }

    #[test]
    fn the_innermost_comes_first_and_what_is_not_known_stays() {
        let resolve = |inside: &str| match inside {
            "env:A" => Some("B".to_owned()),
            "env:B" => Some("deep".to_owned()),
            _ => None,
        };
        assert_eq!(expand("x-${env:${env:A}}-y $$ ${C}", resolve), "x-deep-y $ ${C}");
        assert_eq!(expand("$${env:A} ${open", resolve), "${env:A} ${open");
        assert!(expand(&"${env:A}".repeat(9), |_| Some("x".repeat(LONGEST))).len() <= 3 * LONGEST);
    }
}
