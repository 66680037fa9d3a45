//! Plays `systemctl` and `journalctl`, whichever it is called by: passes its words on to the stand-in manager of the
//! test that `STAND_IN_SYSTEMD` names, prints what that one says, and ends as it says.
#![expect(clippy::print_stdout, clippy::print_stderr, clippy::expect_used, reason = "a stand-in")]

use std::{
    io::{Read as _, Write as _},
    net::Shutdown,
    os::unix::net::UnixStream,
    process::ExitCode,
};

use myriarch_tests::service_manager::Answer;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let socket = std::env::var_os("STAND_IN_SYSTEMD").expect("STAND_IN_SYSTEMD");
    let mut stream = UnixStream::connect(socket).expect("the stand-in manager");
    stream.write_all(&serde_json::to_vec(&words).expect("words")).expect("words are taken");
    stream.shutdown(Shutdown::Write).expect("a socket");
    let mut answer = vec![];
    stream.read_to_end(&mut answer).expect("an answer");
    let Answer { code, stdout, stderr } = serde_json::from_slice(&answer).expect("an answer");
    print!("{stdout}");
    eprint!("{stderr}");
    ExitCode::from(code)
}
