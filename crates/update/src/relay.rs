//! Written here, carried out over there: a second thread writes while the first one makes what comes next.
//!
//! Taking a program out of its archive is work for the processor, hashing and writing it is work for the processor
//! and for the disk. One after the other both wait. A relay passes pieces of one size from a thread that makes
//! bytes to one that writes them, never more than a few at once, so that memory stays flat whatever comes
//! through. An error of the writing thread ends the making one at its next piece.

use std::{
    io::{self, Write},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

/// How many bytes go over at once.
const PIECE: usize = 256 * 1024;
/// How many pieces may wait to be written.
const WAITING: usize = 3;

/// Lets `make` write to a relay, and writes what comes out of it to `out` in a thread beside. Returns when both
/// have ended: what was made, and whether all of it was written.
///
/// # Errors
/// Of the thread, when it cannot be started. A fault of `out` is part of the answer; `make` sees a broken pipe.
pub(crate) fn beside<W: Write + Send, T>(
    out: &mut W,
    make: impl FnOnce(&mut Relay) -> T,
) -> io::Result<(T, io::Result<()>)> {
    let (full, pieces) = sync_channel(WAITING);
    let (empty, spare) = sync_channel(WAITING + 2);
    thread::scope(|scope| {
        let writer = thread::Builder::new()
            .name("write".to_owned())
            .spawn_scoped(scope, move || write_all(out, &pieces, &empty))?;
        let mut relay = Relay { full, spare, piece: Vec::with_capacity(PIECE) };
        let answer = make(&mut relay);
        // Whoever is gone already says why below.
        let _ = relay.flush();
        drop(relay);
        let written = writer.join().unwrap_or_else(|_| Err(io::Error::other("the writing thread panicked")));
        Ok((answer, written))
    })
}

/// The making end. Bytes go over in whole pieces; the rest goes when the making is over.
#[derive(Debug)]
pub(crate) struct Relay {
    full: SyncSender<Vec<u8>>,
    /// Written pieces come back to be filled again.
    spare: Receiver<Vec<u8>>,
    piece: Vec<u8>,
}

impl Write for Relay {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len().min(PIECE - self.piece.len());
        self.piece.extend_from_slice(&bytes[..length]);
        if self.piece.len() == PIECE {
            self.flush()?;
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let next = self.spare.try_recv().unwrap_or_else(|_| Vec::with_capacity(PIECE));
        let piece = std::mem::replace(&mut self.piece, next);
        self.full.send(piece).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

fn write_all(
    out: &mut impl Write,
    pieces: &Receiver<Vec<u8>>,
    empty: &SyncSender<Vec<u8>>,
) -> io::Result<()> {
    for mut piece in pieces {
        out.write_all(&piece)?;
        piece.clear();
        // Nobody wants it any more when the making is over.
        let _ = empty.try_send(piece);
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes and then fails as a full disk does.
    struct Full(Vec<u8>, usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0.len() >= self.1 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            // A short write is no end.
            let length = bytes.len().min(70_001);
            self.0.extend_from_slice(&bytes[..length]);
            Ok(length)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn bytes(length: usize) -> Vec<u8> {
        (0..length).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect()
    }

    #[test]
    fn all_bytes_arrive_in_their_order_whatever_their_number() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 9 * PIECE + 5] {
            let (mut out, all) = (vec![], bytes(length));
            let send = |relay: &mut Relay| all.chunks(100_003).try_for_each(|part| relay.write_all(part));
            let (made, written) = beside(&mut out, send).unwrap();
            assert!(made.is_ok() && written.is_ok(), "{length}");
            assert!(out == all, "{length}");
        }
    }

    #[test]
    fn a_full_disk_ends_the_making_and_is_told() {
        let mut out = Full(vec![], 2 * PIECE);
        let piece = vec![1; PIECE];
        let endless = |relay: &mut Relay| {
            loop {
                if let Err(error) = relay.write_all(&piece) {
                    return error.kind();
                }
            }
        };
        let (made, written) = beside(&mut out, endless).unwrap();
        assert_eq!(made, io::ErrorKind::BrokenPipe);
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_fault_with_the_last_bytes_is_told_though_the_making_went_well() {
        let mut out = Full(vec![], PIECE);
        let (made, written) = beside(&mut out, |relay| relay.write_all(&bytes(PIECE + 100_000))).unwrap();
        assert!(made.is_ok());
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn what_came_before_the_making_failed_does_not_wait_for_more() {
        let mut out = vec![];
        let (made, written) = beside(&mut out, |relay| {
            relay.write_all(b"abc")?;
            Err::<(), _>(io::Error::from(io::ErrorKind::InvalidData))
        })
        .unwrap();
        assert_eq!(made.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(written.is_ok());
        assert_eq!(out, b"abc");
    }
}
