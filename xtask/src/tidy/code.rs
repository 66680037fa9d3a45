//! Rust text with everything blanked that is not code: comments, the insides of literals, test modules.
//!
//! What is blanked becomes spaces, so that lines keep their numbers. This is no parser; it knows just enough of the
//! language's tokens not to take a word in a comment for a deed.

/// The text without comments and literals' contents.
pub(crate) fn code(text: &str) -> String {
    let mut blanker = Blanker { text: text.as_bytes(), at: 0, out: Vec::with_capacity(text.len()) };
    blanker.run();
    String::from_utf8_lossy(&blanker.out).into_owned()
}

/// Like [`code`], without modules under `#[cfg(test)]` as well: what is shipped.
pub(crate) fn shipped(text: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut code = code(text);
    while let Some(start) = code.find(MARK) {
        let rest = &code[start..];
        let block = rest.find(['{', ';']).map_or(rest.len(), |open| match rest.as_bytes()[open] {
            b'{' => open + matching(&rest[open..]),
            _ => open + 1,
        });
        let blank: String = rest[..block].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        code.replace_range(start..start + block, &blank);
    }
    code
}

/// The numbers of the lines in which `word` stands, as a word of its own where it is one.
pub(crate) fn lines_with<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.lines().enumerate().filter(move |(_, line)| has_word(line, word)).map(|(index, _)| index + 1)
}

/// Whether `word` stands in `line`, not as a part of a longer word.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let (first, last) = (word.chars().next(), word.chars().next_back());
    line.match_indices(word).any(|(at, _)| {
        let cut_before = is_part(first) && is_part(line[..at].chars().next_back());
        let cut_behind = is_part(last) && is_part(line[at + word.len()..].chars().next());
        !cut_before && !cut_behind
    })
}

/// The length of the braced block that `text` begins with.
fn matching(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

struct Blanker<'a> {
    text: &'a [u8],
    at: usize,
    out: Vec<u8>,
}

impl Blanker<'_> {
    fn run(&mut self) {
        while self.at < self.text.len() {
            if self.sees(b"//") {
                self.blank_while(|blanker| blanker.byte() != b'\n');
            } else if self.sees(b"/*") {
                self.block_comment();
            } else if let Some(hashes) = self.raw_string() {
                self.raw(hashes);
            } else if self.byte() == b'"' {
                self.quoted(b'"');
            } else if self.byte() == b'\'' && self.is_char_literal() {
                self.quoted(b'\'');
            } else {
                self.keep();
            }
        }
    }

    fn byte(&self) -> u8 {
        self.text[self.at]
    }

    fn sees(&self, word: &[u8]) -> bool {
        self.text[self.at..].starts_with(word)
    }

    fn keep(&mut self) {
        self.out.push(self.byte());
        self.at += 1;
    }

    fn blank(&mut self) {
        self.out.push(if self.byte() == b'\n' { b'\n' } else { b' ' });
        self.at += 1;
    }

    fn blank_while(&mut self, goes_on: impl Fn(&Self) -> bool) {
        while self.at < self.text.len() && goes_on(self) {
            self.blank();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.text.len() {
            let step = if self.sees(b"/*") {
                depth += 1;
                2
            } else if self.sees(b"*/") {
                depth -= 1;
                2
            } else {
                1
            };
            for _ in 0..step {
                self.blank();
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// The number of hashes, where a raw string begins here.
    fn raw_string(&self) -> Option<usize> {
        let in_word = self.at > 0 && {
            let before = self.text[self.at - 1];
            (before.is_ascii_alphanumeric() && before != b'b') || before == b'_'
        };
        if in_word || self.byte() != b'r' {
            return None;
        }
        let hashes = self.text[self.at + 1..].iter().take_while(|byte| **byte == b'#').count();
        (self.text.get(self.at + 1 + hashes) == Some(&b'"')).then_some(hashes)
    }

    fn raw(&mut self, hashes: usize) {
        for _ in 0..hashes + 2 {
            self.keep();
        }
        let end: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
        self.blank_while(|blanker| !blanker.sees(&end));
        for _ in 0..end.len() {
            if self.at < self.text.len() {
                self.keep();
            }
        }
    }

    fn quoted(&mut self, quote: u8) {
        self.keep();
        while self.at < self.text.len() && self.byte() != quote {
            if self.byte() == b'\\' && self.at + 1 < self.text.len() {
                self.blank();
            }
            self.blank();
        }
        if self.at < self.text.len() {
            self.keep();
        }
    }

    /// A lifetime has no closing quote behind its first character.
    fn is_char_literal(&self) -> bool {
        let rest =
            String::from_utf8_lossy(&self.text[self.at + 1..self.text.len().min(self.at + 8)]).into_owned();
        let mut chars = rest.chars();
        match chars.next() {
            Some('\\') => true,
            Some(_) => chars.next() == Some('\''),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_no_code() {
        let text = "let a = \"x.await\"; // .await\n/* .await /* nested */ .await */ b.await;\nlet c = r#\"\"async\"\"#; 'a'";
        let code = code(text);
        assert_eq!(lines_with(&code, ".await").collect::<Vec<_>>(), [2]);
        assert_eq!(lines_with(&code, "async").count(), 0);
        assert_eq!(code.len(), text.len());
    }

    #[test]
    fn lifetimes_and_quotes_are_told_apart() {
        let code =
            code("fn f<'a>(x: &'a str) -> char { '\"' } // \"\nasync fn g() { '\\'' ; \"\\\"async\" }");
        assert_eq!(lines_with(&code, "async").collect::<Vec<_>>(), [2]);
        assert!(code.contains("fn f<'a>(x: &'a str)"), "{code}");
    }

    #[test]
    fn test_modules_are_not_shipped() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { if x { y.await } }\n}\nfn c() {}\n#[cfg(test)]\nmod more;\nfn d() {}\n";
        let shipped = shipped(text);
        assert!(!shipped.contains("await") && !shipped.contains("more"), "{shipped}");
        assert!(shipped.contains("fn c()") && shipped.contains("fn d()"), "{shipped}");
    }

    #[test]
    fn words_are_whole_words() {
        assert!(has_word("async fn x()", "async"));
        assert!(!has_word("use async_trait::async_trait;", "async"));
        assert!(has_word("x.await?", ".await"));
        assert!(!has_word("x.awaiting", ".await"));
    }
}
