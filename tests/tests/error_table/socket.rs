//! What is said over the control socket, in both directions.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixListener,
};

use myriarch_tests::machine::{Machine, Plan, Supervised};

use crate::row::{Done, Group, Row, edit, machine_by, plan};

pub(crate) const GROUP: Group = Group {
    title: "The control socket",
    about: "Verbs reach a running updater over its control socket, as one line of JSON each. What is no request is answered in\n\
            words, and the updater goes on; what is no answer is told by the verb.",
    machine: || machine_by(Plan { supervised: Supervised::ByUpdater, ..plan() }),
    rows: &[
        Row {
            name: "request-no-json",
            input: "A request that is no JSON.",
            done: Done::Message(|| b"GET / HTTP/1.1\r\n\r\n".to_vec()),
            ..Row::UPDATE
        },
        Row {
            name: "request-without-a-schema",
            input: "A request without its schema.",
            done: Done::Message(|| line(r#"{"verb":"update"}"#)),
            ..Row::UPDATE
        },
        Row {
            name: "request-of-another-schema",
            input: "A request of a newer command line.",
            done: Done::Message(|| line(r#"{"schema":99,"verb":"update"}"#)),
            ..Row::UPDATE
        },
        Row {
            name: "request-with-an-unknown-verb",
            input: "A verb that there is not.",
            done: Done::Message(|| line(r#"{"schema":1,"verb":"upgrade"}"#)),
            ..Row::UPDATE
        },
        Row {
            name: "request-with-an-unknown-field",
            input: "A misspelt field.",
            done: Done::Message(|| line(r#"{"schema":1,"verb":"update","too":"1.1.0"}"#)),
            ..Row::UPDATE
        },
        Row {
            name: "request-too-long",
            input: "A request longer than 16 KiB.",
            done: Done::Message(|| vec![b'x'; 1 << 20]),
            ..Row::UPDATE
        },
        Row {
            name: "request-cut-off",
            input: "A client that closes its side in the middle of a request.",
            done: Done::LastMessage(|| br#"{"schema":1,"verb":"upd"#.to_vec()),
            ..Row::UPDATE
        },
        Row {
            name: "request-that-never-comes",
            input: "A client that connects and says nothing.",
            done: Done::Message(Vec::new),
            ..Row::UPDATE
        },
        Row {
            name: "answer-no-json",
            input: "Whatever listens on the socket answers with something else than JSON.",
            bring: |machine| listen(machine, b"hello\n"),
            mend: forget,
            ..Row::UPDATE
        },
        Row {
            name: "answer-of-another-version",
            input: "The running updater is of another version, and answers with what this one does not know.",
            bring: |machine| listen(machine, b"{\"reply\":\"celebrated\"}\n"),
            mend: forget,
            ..Row::UPDATE
        },
        Row {
            name: "answer-with-an-unknown-ending",
            input: "The running updater is of another version, and its ending is not known here.",
            bring: |machine| {
                listen(machine, b"{\"reply\":\"done\",\"exit_code\":0,\"document\":{\"schema\":7}}\n");
            },
            mend: forget,
            ..Row::UPDATE
        },
        Row {
            name: "answer-that-never-comes",
            input: "The running updater ends before it answers.",
            bring: |machine| listen(machine, b""),
            mend: forget,
            ..Row::UPDATE
        },
        Row {
            name: "answer-too-long",
            input: "An answer of more than 4 MiB.",
            bring: |machine| listen(machine, &[b'x'; 5 << 20]),
            mend: forget,
            ..Row::UPDATE
        },
    ],
};

fn line(text: &str) -> Vec<u8> {
    format!("{text}\n").into_bytes()
}

/// From now on verbs ask somebody else, who answers each with these bytes and closes.
fn listen(machine: &Machine, answer: &[u8]) {
    let directory = machine.path().join("other");
    fs::create_dir_all(&directory).expect("a directory of the machine's");
    let _ = fs::remove_file(directory.join("control.sock"));
    let listener = UnixListener::bind(directory.join("control.sock")).expect("a socket of the machine's");
    let answer = answer.to_vec();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(&answer);
        }
    });
    edit(machine, &directory_of(machine, "run"), &directory_of(machine, "other"));
}

fn forget(machine: &mut Machine) {
    edit(machine, &directory_of(machine, "other"), &directory_of(machine, "run"));
}

fn directory_of(machine: &Machine, name: &str) -> String {
    format!("directory = \"{}/{name}\"", machine.path().display())
}
