//! Running other programs: said before, streamed while, judged after.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use crate::failure::{Failure, Result};

/// The very Cargo that runs this task, in the workspace's root.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Runs to the end and returns what was printed; a failure carries what was printed on stderr.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = shown(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::new(format!("`{line}` could not be started: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(format!("`{line}` ended with {}\n{}", output.status, words.trim_end())))
}

/// Runs to the end with its output passing through.
pub(crate) fn stream(command: &mut Command) -> Result<()> {
    each_line(command, |_| ())
}

/// Like [`stream`], and shows every line of stdout to `see`.
pub(crate) fn each_line(command: &mut Command, mut see: impl FnMut(&str)) -> Result<()> {
    let line = shown(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::new(format!("`{line}` could not be started: {error}")))?;
    if let Some(stdout) = child.stdout.take() {
        let mut reader = BufReader::new(stdout);
        let mut bytes = Vec::new();
        while reader.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
            let text = String::from_utf8_lossy(&bytes);
            print!("{text}");
            see(text.trim_end());
            bytes.clear();
        }
    }
    let status =
        child.wait().map_err(|error| Failure::new(format!("`{line}` could not be waited for: {error}")))?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("`{line}` ended with {status}"))) }
}

/// The command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}
