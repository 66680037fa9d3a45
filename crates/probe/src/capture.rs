//! What a program said, bounded.
//!
//! A program under question may print without end. Its first words and its last ones matter, the flood between
//! them does not: a usage error comes first, a panic comes last. So the head and the tail are kept and the pipe
//! is read on, since a program blocked on a full pipe would look like one that hangs.

use std::collections::VecDeque;

use tokio::io::{AsyncRead, AsyncReadExt};

/// The words that stand where output was left out.
const GAP: &[u8] = b"\n[... output left out ...]\n";

/// The head and the tail of a stream.
#[derive(Debug)]
pub(crate) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    limit: usize,
    dropped: bool,
}

impl Capture {
    /// Keeps at most `limit` bytes, the first half and the last.
    pub(crate) fn new(limit: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), limit, dropped: false }
    }

    /// Reads `pipe` to its end. May be dropped at any await and goes on where it was.
    pub(crate) async fn drain(&mut self, pipe: &mut (impl AsyncRead + Unpin)) {
        let mut buffer = vec![0; 8192];
        // A pipe that cannot be read ends like one that is closed: what was read still counts.
        while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
            self.push(buffer.get(..read).unwrap_or_default());
        }
    }

    /// What was kept, and whether something was left out.
    pub(crate) fn finish(self) -> (Vec<u8>, bool) {
        let mut kept = self.head;
        if self.dropped {
            kept.extend_from_slice(GAP);
        }
        kept.extend(self.tail);
        (kept, self.dropped)
    }

    fn push(&mut self, bytes: &[u8]) {
        let half = self.limit / 2;
        let (first, rest) = bytes.split_at(bytes.len().min(half - self.head.len()));
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let surplus = self.tail.len().saturating_sub(self.limit - half);
        if surplus > 0 {
            self.tail.drain(..surplus);
            self.dropped = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(limit: usize, pieces: &[&[u8]]) -> (Vec<u8>, bool) {
        let mut capture = Capture::new(limit);
        for piece in pieces {
            capture.push(piece);
        }
        capture.finish()
    }

    #[test]
    fn output_within_the_limit_is_kept_byte_for_byte() {
        assert_eq!(captured(8, &[b"ab", b"cdef", b"gh"]), (b"abcdefgh".to_vec(), false));
        assert_eq!(captured(7, &[b"abcdefg"]), (b"abcdefg".to_vec(), false));
        assert_eq!(captured(0, &[]), (Vec::new(), false));
    }

    #[test]
    fn of_a_flood_the_head_and_the_tail_are_kept() {
        let (kept, dropped) = captured(4, &[b"ab", b"------------", b"yz"]);
        assert!(dropped);
        assert!(kept.starts_with(b"ab\n["), "{kept:?}");
        assert!(kept.ends_with(b"]\nyz"), "{kept:?}");
    }

    #[test]
    fn a_limit_of_nothing_keeps_nothing() {
        assert_eq!(captured(0, &[b"abc"]), (GAP.to_vec(), true));
    }
}
