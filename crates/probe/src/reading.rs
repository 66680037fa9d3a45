//! One look at the program, and the watch made of many.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use crate::{
    exec::{Exec, ExecError},
    http::{Http, printable},
    listener::listeners,
    process::Process,
    verdict::{Phase, Verdict},
    watch::{Seen, Step, Terms, Watch},
};

/// Between two looks before the first good answer, at the most.
const SETTLING_INTERVAL: Duration = Duration::from_millis(100);
/// And at the least.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(5);
/// The part of the time since the start by which the first good answer may be seen late.
const LATENESS: u32 = 16;
/// How much of an exec probe's output is kept for words.
const OUTPUT_LIMIT: usize = 1024;

/// What one look saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// All asked for is well, and the right process says so.
    Ready,
    /// Not well, or nobody there; what was seen.
    NotReady(String),
    /// Well, but said by a process that runs another file; who it is.
    Impostor(String),
    /// Well, but not the process that was there before; who it is.
    Restarted(String),
}

/// Whether it matters who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Identity {
    /// Whoever answers. For an endpoint that is not this machine's.
    Skip,
    /// What listens on the HTTP port must run the watched file: same device, same inode.
    #[default]
    Listener,
}

/// The file that should be running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileRef {
    /// By path, looked up with links followed at each look.
    Path(PathBuf),
    /// By device and inode.
    Id {
        /// The device.
        dev: u64,
        /// The inode.
        ino: u64,
    },
}

/// What is asked, how often and for how long.
#[derive(Debug, Clone)]
pub struct ProbeSettings {
    /// A plain HTTP URL on this machine that answers 2xx when the program is well.
    pub http: Option<String>,
    /// A command that exits 0 when the program is well. Where both are given, both must be well.
    pub exec: Option<Vec<String>>,
    /// Whether it matters who answers on the HTTP port.
    pub identity: Identity,
    /// For one question. 2 s.
    pub timeout: Duration,
    /// Between two looks; before the first good answer at most 100 ms, and a sixteenth of the time so far where
    /// no command is asked. 1 s.
    pub interval: Duration,
    /// Within which the first good answer must come. 60 s.
    pub settle: Duration,
    /// For which it must stay well then. 60 s.
    pub soak: Duration,
    /// How many bad looks in a row are forgiven in the soak. 2.
    pub tolerate: u32,
}

impl Default for ProbeSettings {
    fn default() -> Self {
        Self {
            http: None,
            exec: None,
            identity: Identity::default(),
            timeout: Duration::from_secs(2),
            interval: Duration::from_secs(1),
            settle: Duration::from_mins(1),
            soak: Duration::from_mins(1),
            tolerate: 2,
        }
    }
}

/// Settings that cannot be probed by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// The URL is none that can be asked.
    #[error("expected a health URL http://host[:port][/path], found {found} in {url:?}")]
    Url {
        /// As given.
        url: String,
        /// What is wrong with it.
        found: &'static str,
    },
    /// Neither a URL nor a command.
    #[error("expected a health URL or a health command, found neither")]
    Nothing,
    /// An identity without a port.
    #[error("expected a health URL to check the identity of its listener by, found none")]
    IdentityWithoutHttp,
    /// A command without a program.
    #[error("expected a health command, found an empty list")]
    EmptyCommand,
    /// A time that would never let a look end or the next begin.
    #[error("expected a {name} above zero, found zero")]
    Zero {
        /// Which one.
        name: &'static str,
    },
}

/// Looks at a program and judges what it sees.
#[derive(Debug, Clone)]
pub struct Probe {
    http: Option<Http>,
    exec: Option<Exec>,
    identity: Identity,
    interval: Duration,
    terms: Terms,
}

impl Probe {
    /// A probe by `settings`.
    ///
    /// # Errors
    ///
    /// When the settings cannot be probed by.
    pub fn new(settings: ProbeSettings) -> Result<Self, ProbeError> {
        let ProbeSettings { http, exec, identity, timeout, interval, settle, soak, tolerate } = settings;
        for (name, time) in [("timeout", timeout), ("interval", interval)] {
            if time.is_zero() {
                return Err(ProbeError::Zero { name });
            }
        }
        if http.is_none() && exec.is_none() {
            return Err(ProbeError::Nothing);
        }
        if http.is_none() && identity == Identity::Listener {
            return Err(ProbeError::IdentityWithoutHttp);
        }
        let http = http.map(|url| Http::new(&url, timeout)).transpose()?;
        let exec = exec.map(|command| command_of(&command, timeout)).transpose()?;
        Ok(Self { http, exec, identity, interval, terms: Terms { settle, soak, tolerate } })
    }

    /// Between two looks, once the program is ready.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// How long the program must stay well after its first good answer.
    pub fn soak(&self) -> Duration {
        self.terms.soak
    }

    /// One look at `program`.
    pub async fn once(&self, program: impl Into<FileRef>) -> Reading {
        let program = program.into();
        match program.id() {
            Ok(id) => self.look(id, None).await.reading,
            Err(error) if self.identity == Identity::Listener => {
                Reading::NotReady(format!("cannot tell which file should be running: {error}"))
            }
            Err(_) => self.look((0, 0), None).await.reading,
        }
    }

    /// The process that answers well on the HTTP port and runs `file`. None where nobody does, or where the
    /// identity of who answers is not asked.
    pub async fn who(&self, file: (u64, u64)) -> Option<Process> {
        let seen = self.look(file, None).await;
        seen.who.filter(|_| seen.reading == Reading::Ready)
    }

    /// Settles and soaks; `told` hears of what happens on the way. Takes at most `settle` + `soak` and the looks
    /// that are under way then.
    ///
    /// `file` is the device and inode of the program that should be running.
    pub async fn watch(&self, file: (u64, u64), told: &mut (dyn FnMut(Phase) + Send)) -> Verdict {
        let begin = Instant::now();
        let mut watch = Watch::new(self.terms);
        loop {
            let looked = begin.elapsed();
            let seen = self.look(file, watch.who()).await;
            match watch.saw(begin.elapsed(), seen) {
                Step::Done(verdict) => return verdict,
                Step::Go(Some(phase)) => told(phase),
                Step::Go(None) => {}
            }
            let interval = if watch.is_settling() { self.settling_interval(looked) } else { self.interval };
            // Not past the moment at which time decides, while it is still to come, and never without a pause.
            let (now, due) = (begin.elapsed(), watch.due());
            let next = if due > now { (looked + interval).min(due) } else { looked + interval };
            let next = next.max(now + Duration::from_millis(1));
            sleep(next.saturating_sub(now)).await;
        }
    }

    /// How soon the next look follows on one at `looked`, while the first good answer is waited for. A program that
    /// starts fast is looked at often, so that its outage is not told longer than it was; the longer it takes the
    /// less that matters. A command is no question to be asked a hundred times a second.
    fn settling_interval(&self, looked: Duration) -> Duration {
        let shortest = if self.exec.is_some() { SETTLING_INTERVAL } else { SHORTEST_INTERVAL };
        (looked / LATENESS).clamp(shortest, SETTLING_INTERVAL).min(self.interval)
    }

    async fn look(&self, file: (u64, u64), known: Option<Process>) -> Seen {
        let mut who = None;
        if let Some(http) = &self.http {
            let reading = match http.ask().await {
                Err(words) => Reading::NotReady(words),
                Ok(answer) if !answer.is_success() => Reading::NotReady(answer.in_words()),
                Ok(_) if self.identity == Identity::Skip => Reading::Ready,
                Ok(_) => {
                    let (reading, process) = identify(http, file, known);
                    who = process;
                    reading
                }
            };
            if reading != Reading::Ready {
                return Seen { reading, who };
            }
        }
        if let Some(exec) = &self.exec
            && let Err(words) = ask_command(exec).await
        {
            return Seen { reading: Reading::NotReady(words), who };
        }
        Seen { reading: Reading::Ready, who }
    }
}

impl FileRef {
    /// Its device and inode now.
    ///
    /// # Errors
    ///
    /// When there is no such file.
    pub fn id(&self) -> io::Result<(u64, u64)> {
        match self {
            Self::Id { dev, ino } => Ok((*dev, *ino)),
            Self::Path(path) => {
                let metadata = fs::metadata(path)
                    .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
                Ok((metadata.dev(), metadata.ino()))
            }
        }
    }
}

impl From<(u64, u64)> for FileRef {
    fn from((dev, ino): (u64, u64)) -> Self {
        Self::Id { dev, ino }
    }
}

impl From<PathBuf> for FileRef {
    fn from(path: PathBuf) -> Self {
        Self::Path(path)
    }
}

impl From<&Path> for FileRef {
    fn from(path: &Path) -> Self {
        Self::Path(path.to_owned())
    }
}

fn command_of(command: &[String], deadline: Duration) -> Result<Exec, ProbeError> {
    let (program, args) = command.split_first().ok_or(ProbeError::EmptyCommand)?;
    Ok(Exec { deadline, output_limit: OUTPUT_LIMIT, ..Exec::new(program, args) })
}

/// Whether one of those who listen runs `file`. A socket may be held by several processes, a parent and the
/// children that inherited it; that the right one is among them is enough.
fn identify(http: &Http, file: (u64, u64), known: Option<Process>) -> (Reading, Option<Process>) {
    let port = http.port();
    let holders = match listeners(http.host(), port, known) {
        Ok(holders) => holders,
        Err(error) => {
            return (Reading::NotReady(format!("cannot tell who listens on port {port}: {error}")), None);
        }
    };
    let mut strangers = Vec::new();
    for holder in &holders {
        match holder.exe_id() {
            Ok(id) if id == file => return (Reading::Ready, Some(*holder)),
            Ok(_) => {
                let exe = holder.exe().map_or_else(|e| e.to_string(), |exe| exe.display().to_string());
                strangers.push((*holder, format!("{holder} on port {port} runs {}", printable(&exe))));
            }
            Err(_) => {}
        }
    }
    if let Some((holder, words)) = strangers.into_iter().next() {
        return (Reading::Impostor(words), Some(holder));
    }
    let words = format!("answered, but no process that we may look at listens on port {port}");
    (Reading::NotReady(words), None)
}

async fn ask_command(exec: &Exec) -> Result<(), String> {
    let program = exec.program.display();
    match exec.run().await {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
            Err(format!("{program}: {}: {}", output.status, printable(&String::from_utf8_lossy(said))))
        }
        Err(error @ ExecError::Start { .. }) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            Err(format!("{error}: {cause}"))
        }
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_starts_fast_is_looked_at_often() {
        let settings =
            ProbeSettings { http: Some("http://127.0.0.1:1/".to_owned()), ..ProbeSettings::default() };
        let quick =
            Probe::new(ProbeSettings { interval: Duration::from_millis(20), ..settings.clone() }).unwrap();
        let with_command =
            Probe::new(ProbeSettings { exec: Some(vec!["true".to_owned()]), ..settings.clone() }).unwrap();
        let plain = Probe::new(settings).unwrap();
        let millis =
            |probe: &Probe, looked| probe.settling_interval(Duration::from_millis(looked)).as_millis();
        for (looked, interval) in [(0, 5), (80, 5), (320, 20), (1600, 100), (60_000, 100)] {
            assert_eq!(millis(&plain, looked), interval, "{looked}");
            assert_eq!(millis(&quick, looked), interval.min(20), "{looked}");
            assert_eq!(millis(&with_command, looked), 100, "{looked}");
        }
    }
}
