//! What the command line and a running updater say to each other: JSON, one document a line.
//!
//! The socket is the binary's; here are only words and their limits. Requests are read strictly, since a
//! misspelt field of an update must not turn into another update; a request of another schema is answered
//! with clear words, because after an upgrade of the package the old process still runs.

use std::time::Duration;

use myriarch_policy::Version;
use myriarch_update::Event;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ending::Ending, exit::ExitCode};

/// The schema of requests and replies.
pub const CONTROL_SCHEMA: u32 = 1;
/// The longest request, in bytes.
pub const MAX_REQUEST: usize = 16 << 10;
/// The longest reply, in bytes: a status with many slots and reasons.
pub const MAX_REPLY: usize = 4 << 20;

/// What is asked of a running updater.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The schema it is written in.
    pub schema: u32,
    /// What is asked.
    pub verb: Verb,
}

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Verb {
    /// Update, to `to` if it is named.
    Update {
        /// The version asked for; what the policy selects if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Version>,
    },
    /// Go back, to `to` if it is named.
    Rollback {
        /// A version that was confirmed here; the one before if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Version>,
    },
    /// How things stand.
    Status {},
    /// Let a quarantined version be tried again.
    Release {
        /// The version.
        version: Version,
    },
    /// Run nothing but this version.
    Pin {
        /// The version.
        version: Version,
    },
    /// Forget the pin.
    Unpin {},
    /// Look for an update and change nothing.
    Check {},
    /// Bring what was interrupted to its end, and start what failed for want of an intact program.
    Recover {},
}

/// What a running updater answers: any number of events, then one of the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// Something happened.
    Event(Event),
    /// The verb has ended.
    Done {
        /// The exit code for the command line.
        exit_code: ExitCode,
        /// An [`Ending`], or what was asked for.
        document: Value,
    },
    /// The request was not carried out at all.
    Error {
        /// What was expected and what was found.
        message: String,
        /// What an operator can do about it.
        hint: String,
    },
}

/// A line that is no request or reply of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProtocolError {
    message: String,
    hint: &'static str,
}

const UPGRADED: &str =
    "the running updater and this command are of different versions: restart the service to run the new one";
const CLIENT: &str = "speak to the updater with the command line of the same version";

impl Request {
    /// A request for `verb` in this version's schema.
    pub fn new(verb: Verb) -> Self {
        Self { schema: CONTROL_SCHEMA, verb }
    }

    /// One line, its line feed included.
    pub fn to_line(&self) -> String {
        #[derive(Serialize)]
        struct Line<'a> {
            schema: u32,
            #[serde(flatten)]
            verb: &'a Verb,
        }
        to_line(&Line { schema: self.schema, verb: &self.verb })
    }

    /// Reads one line, with or without its line feed.
    ///
    /// # Errors
    /// For a line that is too long, is no JSON, has another schema, or asks what is not known.
    pub fn parse(line: &[u8]) -> Result<Self, ProtocolError> {
        let refused = |message| ProtocolError { message, hint: CLIENT };
        within(line, MAX_REQUEST, "a request").map_err(refused)?;
        let mut value: Value = serde_json::from_slice(line).map_err(|error| {
            refused(format!("expected a request as one line of JSON, found something else: {error}"))
        })?;
        let schema = value.as_object_mut().and_then(|object| object.remove("schema"));
        let Some(schema) = schema.as_ref().and_then(Value::as_u64) else {
            return Err(refused("expected a request with a `schema` number, found none".to_owned()));
        };
        if schema != u64::from(CONTROL_SCHEMA) {
            let message = format!("expected a request of schema {CONTROL_SCHEMA}, found schema {schema}");
            return Err(ProtocolError { message, hint: UPGRADED });
        }
        let verb = serde_json::from_value(value)
            .map_err(|error| refused(format!("expected a verb that is known, found {error}")))?;
        Ok(Self { schema: CONTROL_SCHEMA, verb })
    }
}

impl Reply {
    /// The end of a verb that ran the chain.
    pub fn ended(ending: &Ending) -> Self {
        Self::done(ending.exit_code, ending)
    }

    /// The end of a verb that asked for `document`.
    pub fn done(exit_code: ExitCode, document: &impl Serialize) -> Self {
        match serde_json::to_value(document) {
            Ok(document) => Self::Done { exit_code, document },
            Err(error) => Self::Error {
                message: format!("expected a document that JSON can say, found {error}"),
                hint: "this is a fault of the program: report it".to_owned(),
            },
        }
    }

    /// One line, its line feed included.
    pub fn to_line(&self) -> String {
        to_line(self)
    }

    /// Reads one line, with or without its line feed.
    ///
    /// # Errors
    /// For a line that is too long, is no JSON, or says what is not known.
    pub fn parse(line: &[u8]) -> Result<Self, ProtocolError> {
        let refused = |message| ProtocolError { message, hint: UPGRADED };
        within(line, MAX_REPLY, "a reply").map_err(refused)?;
        serde_json::from_slice(line).map_err(|error| {
            refused(format!("expected a reply that is known, found something else: {error}"))
        })
    }
}

impl Ending {
    /// The ending in a [`Reply::Done`].
    ///
    /// # Errors
    /// For a document that is none.
    pub fn from_document(document: Value) -> Result<Self, ProtocolError> {
        serde_json::from_value(document).map_err(|error| ProtocolError {
            message: format!("expected an ending that is known, found {error}"),
            hint: UPGRADED,
        })
    }
}

impl From<&ProtocolError> for Reply {
    fn from(error: &ProtocolError) -> Self {
        Self::Error { message: error.message.clone(), hint: error.hint.to_owned() }
    }
}

impl ProtocolError {
    /// What an operator can do about it.
    pub fn hint(&self) -> &'static str {
        self.hint
    }
}

/// Cuts a stream of bytes into lines without ever holding more than one line of the allowed length.
#[derive(Debug)]
pub struct LineBuffer {
    limit: usize,
    bytes: Vec<u8>,
}

impl LineBuffer {
    /// A buffer for lines of at most `limit` bytes, line feed not counted.
    pub fn new(limit: usize) -> Self {
        Self { limit, bytes: Vec::new() }
    }

    /// The stream ended before a line did.
    pub fn ended(&self) -> ProtocolError {
        let found = self.bytes.len();
        let message =
            format!("expected one line of JSON with its line feed, found the end after {found} bytes");
        ProtocolError { message, hint: CLIENT }
    }

    /// No line came in `waited`.
    pub fn late(&self, waited: Duration) -> ProtocolError {
        let (found, waited) = (self.bytes.len(), crate::duration::rough(crate::duration::millis(waited)));
        let message =
            format!("expected one line of JSON within {waited}, found {found} bytes and no line feed");
        ProtocolError { message, hint: CLIENT }
    }

    /// Takes the next bytes and answers the lines that they complete, without their line feeds.
    ///
    /// # Errors
    /// When a line is longer than the limit; the stream is of no use any more.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (content, ends) = match piece.split_last() {
                Some((b'\n', content)) => (content, true),
                _ => (piece, false),
            };
            if self.bytes.len() + content.len() > self.limit {
                let message = format!("expected a line of at most {} bytes, found a longer one", self.limit);
                return Err(ProtocolError { message, hint: CLIENT });
            }
            self.bytes.extend_from_slice(content);
            if ends {
                lines.push(std::mem::take(&mut self.bytes));
            }
        }
        Ok(lines)
    }
}

fn within(line: &[u8], limit: usize, what: &str) -> Result<(), String> {
    if line.len() > limit + 1 {
        return Err(format!("expected {what} of at most {limit} bytes, found {}", line.len()));
    }
    Ok(())
}

fn to_line(value: &impl Serialize) -> String {
    let mut line = serde_json::to_string(value).unwrap_or_default();
    line.push('\n');
    line
}
