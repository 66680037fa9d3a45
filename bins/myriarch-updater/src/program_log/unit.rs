//! What the program of a unit says: systemd keeps it. Where the unit is a supervisor, the collector's own words are in
//! the supervisor's files, and these come first.

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use myriarch_systemd::{Systemd, UnitName};
use myriarch_update::ProgramLog;
use tokio::time::sleep;

use super::FileLog;

/// The most lines that are asked for.
const LINES: u32 = 500;
/// How often systemd's log is looked at, for what was said a moment ago may not be in it yet.
const LOOKS: u32 = 4;
/// Between two of these looks.
const PAUSE: Duration = Duration::from_millis(100);

/// The files that are followed, and systemd's log.
#[derive(Debug)]
pub(crate) struct UnitLog {
    files: FileLog,
    systemd: Systemd,
    unit: UnitName,
    since: Mutex<Option<SystemTime>>,
}

impl UnitLog {
    /// Of `unit`, besides what `files` tell.
    pub(crate) fn new(files: FileLog, systemd: Systemd, unit: UnitName) -> Self {
        Self { files, systemd, unit, since: Mutex::default() }
    }

    async fn kept_by_systemd(&self) -> String {
        let Some(since) = *self.since.lock().unwrap_or_else(PoisonError::into_inner) else {
            return String::new();
        };
        for _ in 0..LOOKS {
            match self.systemd.said(&self.unit, since, LINES).await {
                Ok(lines) if lines.is_empty() => sleep(PAUSE).await,
                Ok(lines) => return lines.join("\n") + "\n",
                Err(_) => break,
            }
        }
        String::new()
    }
}

#[async_trait]
impl ProgramLog for UnitLog {
    async fn begin(&self, effective: Option<&Path>) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Some(SystemTime::now());
        self.files.begin(effective).await;
    }

    async fn follow(&self) {
        self.files.follow().await;
    }

    async fn said(&self) -> Vec<u8> {
        let mut said = self.files.said().await;
        if said.is_empty() {
            said = self.kept_by_systemd().await.into_bytes();
        }
        said
    }
}
