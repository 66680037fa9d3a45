//! The control socket: how a second terminal reaches the updater that owns the child.
//!
//! One request a connection, as a line of JSON; the answer is every event while it is carried out and one last
//! line. Only root and the user that runs the updater are let in: the kernel says who asks.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use myriarch_cli::{
    Ending, ExitCode,
    control::{LineBuffer, MAX_REPLY, MAX_REQUEST, ProtocolError, Reply, Request, Verb},
};
use myriarch_update::{Event, Observe, Updater};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
    sync::{
        broadcast::{Receiver, error::RecvError},
        oneshot,
    },
    task::{JoinError, JoinSet},
    time::{Instant, timeout, timeout_at},
};

use crate::{conduct::conduct, serve::Service, turn::Doing, verb_words};

/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);

/// The socket could not be made or reached.
#[derive(Debug, thiserror::Error)]
#[error("control socket {}", path.display())]
pub(crate) struct ControlError {
    path: PathBuf,
    #[source]
    source: io::Error,
    hint: &'static str,
}

impl ControlError {
    /// What an operator can do about it.
    pub(crate) fn hint(&self) -> &'static str {
        self.hint
    }
}

const SOCKET: &str =
    "look at the permissions of run.directory; only root and the updater's user may use the socket";
const ENDED: &str = "the log of `run` says why it ended, and `status` what runs";

fn socket(directory: &Path) -> PathBuf {
    directory.join("control.sock")
}

/// Listens in `directory`. Whoever holds the store's lock owns the socket, so an old one is stale.
pub(crate) fn listen(directory: &Path) -> Result<UnixListener, ControlError> {
    let path = socket(directory);
    let bind = || {
        fs::create_dir_all(directory)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(listener)
    };
    bind().map_err(|source| ControlError { path: path.clone(), source, hint: SOCKET })
}

/// Removes the socket at the end.
pub(crate) fn forget(directory: &Path) {
    let _ = fs::remove_file(socket(directory));
}

/// Answers until dropped, and with it every answer under way.
pub(crate) async fn serve(service: Arc<Service>, listener: UnixListener) {
    let mut answers = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let service = service.clone();
                    answers.spawn(async move {
                        // A client that goes away loses its answer, nothing else.
                        let _ = answer(&service, stream).await;
                    });
                }
                // Out of descriptors, say: wait for some to come back.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
            Some(answered) = answers.join_next() => {
                // A step that panicked must not leave an updater that looks alive.
                if let Some(panic) = answered.err().filter(JoinError::is_panic) {
                    std::panic::resume_unwind(panic.into_panic());
                }
            }
        }
    }
}

async fn answer(service: &Service, mut stream: UnixStream) -> io::Result<()> {
    let reply = match admitted(&stream) {
        Err(reply) => reply,
        Ok(()) => match request(&mut stream).await? {
            Err(error) => Reply::from(&error),
            Ok(Request { verb: Verb::Status {}, .. }) => {
                Reply::done(ExitCode::Done, &crate::status::document(&service.config, &service.store))
            }
            // Whoever asks for it has nobody to ask again: it waits for its turn.
            Ok(Request { verb: verb @ Verb::Recover {}, .. }) => {
                let updater = service.turns.wait_for(asked(&verb, &stream)).await;
                return carry_out(service, &updater, verb, stream).await;
            }
            Ok(Request { verb, .. }) => match service.turns.take(asked(&verb, &stream)) {
                Err(doing) => busy(doing.as_ref()),
                Ok(updater) => return carry_out(service, &updater, verb, stream).await,
            },
        },
    };
    stream.write_all(reply.to_line().as_bytes()).await?;
    stream.shutdown().await
}

/// The work goes on when the client goes away or stops reading: an update is not lost with a terminal.
async fn carry_out(service: &Service, updater: &Updater, verb: Verb, stream: UnixStream) -> io::Result<()> {
    let (over, until) = oneshot::channel();
    let telling = tokio::spawn(tell(service.events.listen(), until, stream));
    let ending = conduct(updater, verb).await;
    crate::status::publish(&service.config, &service.store);
    let _ = over.send(Reply::ended(&ending));
    timeout(PATIENCE, telling).await??
}

/// Sends every event, and the last word once the work is over.
async fn tell(
    mut events: Receiver<Event>,
    mut until: oneshot::Receiver<Reply>,
    mut stream: UnixStream,
) -> io::Result<()> {
    let last = loop {
        tokio::select! {
            biased;
            event = events.recv() => match event {
                Ok(event) => stream.write_all(Reply::Event(event).to_line().as_bytes()).await?,
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return Ok(()),
            },
            last = &mut until => match last {
                Ok(last) => break last,
                Err(_) => return Ok(()),
            },
        }
    };
    stream.write_all(last.to_line().as_bytes()).await?;
    stream.shutdown().await
}

/// Root and our own user, by the kernel's word.
fn admitted(stream: &UnixStream) -> Result<(), Reply> {
    let ours = rustix::process::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == 0 || peer.uid() == ours => Ok(()),
        Ok(peer) => Err(Reply::Error {
            message: format!("expected user 0 or {ours} on the control socket, found user {}", peer.uid()),
            hint: "run this as root or as the updater's user".to_owned(),
        }),
        Err(error) => Err(Reply::Error {
            message: format!("who asks could not be told: {error}"),
            hint: "run this on the updater's own machine".to_owned(),
        }),
    }
}

async fn request(stream: &mut UnixStream) -> io::Result<Result<Request, ProtocolError>> {
    let mut lines = LineBuffer::new(MAX_REQUEST);
    let mut buffer = vec![0; 4096];
    let until = Instant::now() + PATIENCE;
    loop {
        let Ok(length) = timeout_at(until, stream.read(&mut buffer)).await else {
            return Ok(Err(lines.late(PATIENCE)));
        };
        let length = length?;
        if length == 0 {
            return Ok(Err(lines.ended()));
        }
        match lines.push(&buffer[..length]) {
            Err(error) => return Ok(Err(error)),
            Ok(found) => {
                if let Some(line) = found.first() {
                    return Ok(Request::parse(line));
                }
            }
        }
    }
}

/// What is asked and by whom, for others who ask meanwhile.
fn asked(verb: &Verb, stream: &UnixStream) -> String {
    let by = stream.peer_cred().ok().map(|peer| match peer.pid() {
        Some(pid) => format!(", asked for by process {pid} of user {},", peer.uid()),
        None => format!(", asked for by user {},", peer.uid()),
    });
    format!("`{}`{}", verb_words(verb), by.unwrap_or_default())
}

fn busy(doing: Option<&Doing>) -> Reply {
    let with = doing.map_or_else(|| "something that ends just now".to_owned(), ToString::to_string);
    Reply::ended(&Ending::failed(
        ExitCode::Locked,
        &io::Error::other(format!("expected an updater that is idle, found it busy with {with}")),
        Some("wait for it; `status` says how it goes".to_owned()),
    ))
}

/// Asks the updater that runs, if one does: its events go to `observe`, its ending is the answer.
pub(crate) async fn ask(
    directory: &Path,
    verb: Verb,
    observe: &dyn Observe,
) -> Result<Option<Ending>, ControlError> {
    let path = socket(directory);
    let hinted = |source, hint| ControlError { path: path.clone(), source, hint };
    let failed = |source| hinted(source, SOCKET);
    let odd = |error: ProtocolError| {
        let hint = error.hint();
        hinted(io::Error::other(error), hint)
    };
    let mut stream = match UnixStream::connect(&path).await {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    // A client that is not let in may be told so before it has asked: the answer says more than the failed write.
    let unsent = stream.write_all(Request::new(verb).to_line().as_bytes()).await.err();
    let mut lines = LineBuffer::new(MAX_REPLY);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = stream.read(&mut buffer).await.map_err(|error| hinted(error, ENDED))?;
        if length == 0 {
            if let Some(error) = unsent {
                return Err(failed(error));
            }
            let ended =
                "the updater ended before it answered; its next start brings an open trial to its end";
            return Err(hinted(io::Error::new(io::ErrorKind::UnexpectedEof, ended), ENDED));
        }
        for line in lines.push(&buffer[..length]).map_err(odd)? {
            match Reply::parse(&line).map_err(odd)? {
                Reply::Event(event) => observe.observe(&event),
                Reply::Error { message, hint } => {
                    return Ok(Some(Ending::failed(
                        ExitCode::Failed,
                        &io::Error::other(message),
                        Some(hint),
                    )));
                }
                Reply::Done { document, .. } => {
                    let ending = Ending::from_document(document).map_err(odd)?;
                    return Ok(Some(ending));
                }
            }
        }
    }
}
