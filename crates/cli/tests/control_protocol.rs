//! What the control socket's words promise: read strictly, within limits, and never half understood.

use myriarch_cli::{
    Ending, ExitCode,
    control::{CONTROL_SCHEMA, LineBuffer, MAX_REPLY, MAX_REQUEST, Reply, Request, Verb},
};
use myriarch_update::Event;

#[test]
fn every_request_reads_back_from_its_line() {
    let version = "0.165.1".parse::<myriarch_policy::Version>().unwrap();
    for (verb, line) in [
        (Verb::Update { to: None }, r#"{"schema":1,"verb":"update"}"#),
        (Verb::Update { to: Some(version.clone()) }, r#"{"schema":1,"verb":"update","to":"0.165.1"}"#),
        (Verb::Rollback { to: None }, r#"{"schema":1,"verb":"rollback"}"#),
        (Verb::Status {}, r#"{"schema":1,"verb":"status"}"#),
        (Verb::Release { version: version.clone() }, r#"{"schema":1,"verb":"release","version":"0.165.1"}"#),
        (Verb::Pin { version }, r#"{"schema":1,"verb":"pin","version":"0.165.1"}"#),
        (Verb::Unpin {}, r#"{"schema":1,"verb":"unpin"}"#),
        (Verb::Check {}, r#"{"schema":1,"verb":"check"}"#),
        (Verb::Recover {}, r#"{"schema":1,"verb":"recover"}"#),
    ] {
        let request = Request::new(verb);
        assert_eq!(request.to_line(), format!("{line}\n"));
        assert_eq!(Request::parse(line.as_bytes()).unwrap(), request);
        assert_eq!(Request::parse(request.to_line().as_bytes()).unwrap(), request);
    }
}

#[test]
fn a_misspelt_field_does_not_become_another_update() {
    for (line, words) in [
        (r#"{"schema":1,"verb":"update","too":"0.1.0"}"#, "unknown field `too`"),
        (r#"{"schema":1,"verb":"status","x":1}"#, "unknown field `x`"),
        (r#"{"schema":1,"verb":"upgrade"}"#, "unknown variant `upgrade`"),
        (r#"{"schema":1,"verb":"pin"}"#, "missing field `version`"),
        (r#"{"schema":1,"verb":"pin","version":"../x"}"#, "expected a version"),
        (r#"{"verb":"update"}"#, "expected a request with a `schema` number"),
        (r#"{"schema":"1","verb":"update"}"#, "expected a request with a `schema` number"),
        (r#"["update"]"#, "expected a request with a `schema` number"),
        ("update", "expected a request as one line of JSON"),
        ("", "expected a request as one line of JSON"),
    ] {
        let error = Request::parse(line.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(words), "{line}: {error}");
    }
}

#[test]
fn another_schema_is_refused_with_clear_words() {
    let error = Request::parse(br#"{"schema":2,"verb":"update","mode":"new"}"#).unwrap_err();
    assert_eq!(error.to_string(), "expected a request of schema 1, found schema 2");
    assert!(error.hint().contains("restart the service"));
    assert!(matches!(Reply::from(&error), Reply::Error { hint, .. } if hint == error.hint()));
    assert_eq!(CONTROL_SCHEMA, 1);
}

#[test]
fn every_reply_reads_back_from_its_line() {
    let event = Reply::Event(Event::Staged { slot: "0.1.0-000000000000".to_owned() });
    assert_eq!(
        event.to_line(),
        "{\"reply\":\"event\",\"event\":\"staged\",\"slot\":\"0.1.0-000000000000\"}\n"
    );
    let ending = Ending::done("two\nlines");
    let error = Reply::Error { message: "m".to_owned(), hint: "h".to_owned() };
    for reply in [event, Reply::ended(&ending), Reply::done(ExitCode::Available, &"x"), error] {
        let line = reply.to_line();
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(Reply::parse(line.as_bytes()).unwrap(), reply);
    }
    let Reply::Done { document, exit_code } = Reply::ended(&ending) else { panic!() };
    assert_eq!((serde_json::from_value::<Ending>(document).unwrap(), exit_code), (ending, ExitCode::Done));
    assert!(Reply::parse(br#"{"reply":"event","event":"novelty"}"#).is_err());
    assert!(Reply::parse(br#"{"reply":"done","exit_code":77,"document":null}"#).is_err());
}

#[test]
fn nothing_longer_than_its_limit_is_read() {
    let long = format!(r#"{{"schema":1,"verb":"update","to":"{}"}}"#, "1".repeat(MAX_REQUEST));
    assert!(Request::parse(long.as_bytes()).unwrap_err().to_string().contains("at most"));
    assert!(Reply::parse(&vec![b' '; MAX_REPLY + 2]).unwrap_err().to_string().contains("at most"));
}

#[test]
fn lines_are_cut_however_the_stream_is_chunked() {
    let stream = b"one\n\ntwo three\nrest";
    for size in 1..=stream.len() {
        let mut buffer = LineBuffer::new(9);
        let mut lines = Vec::new();
        for chunk in stream.chunks(size) {
            lines.extend(buffer.push(chunk).unwrap());
        }
        assert_eq!(lines, [b"one".to_vec(), b"".to_vec(), b"two three".to_vec()], "{size}");
    }
    let mut buffer = LineBuffer::new(9);
    assert!(buffer.push(b"123456789").unwrap().is_empty());
    assert!(buffer.push(b"0").is_err(), "not even before the line feed comes");
}
