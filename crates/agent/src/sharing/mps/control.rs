//! Commands of NVIDIA's that a daemon needs.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use thiserror::Error;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// How long a command may take.
const ANSWER: Duration = Duration::from_secs(10);

/// What did not work.
#[derive(Debug, Error)]
pub(super) enum MpsError {
    /// A folder could not be made.
    #[error("cannot make the folder {}: {source}; see that mpsRoot is mounted and writable", path.display())]
    Folder { path: PathBuf, source: std::io::Error },
    /// A program could not be run.
    #[error("cannot run {}: {source}; see that the driver's programs are in the agent's image or mounted", program.display())]
    Run { program: PathBuf, source: std::io::Error },
    /// A program failed.
    #[error("{} {what} failed ({status}): {said}", program.display())]
    Failed { program: PathBuf, what: String, status: String, said: String },
    /// The daemon ended.
    #[error("the MPS control daemon ended ({0})")]
    Ended(String),
}

/// Runs a program to its end, with `input` as its input, and gives what it wrote.
pub(super) async fn run(
    program: &Path,
    arguments: &[&str],
    envs: &[(&str, &Path)],
    input: &str,
) -> Result<String, MpsError> {
    let fail = |source| MpsError::Run { program: program.to_owned(), source };
    let mut command = Command::new(program);
    command.args(arguments).envs(envs.iter().copied()).kill_on_drop(true);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(fail)?;
    let mut stdin = child.stdin.take().expect("its input is a pipe");
    let what =
        || [&arguments.join(" "), input.trim()].iter().filter(|it| !it.is_empty()).fold(String::new(), |a, b| a + b);
    let failed =
        |status: String, said: String| MpsError::Failed { program: program.to_owned(), what: what(), status, said };
    let talk = async {
        // A program that reads nothing says why by how it ends.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        child.wait_with_output().await
    };
    let output = match tokio::time::timeout(ANSWER, talk).await {
        Ok(output) => output.map_err(fail)?,
        Err(_) => return Err(failed("no answer".to_owned(), String::new())),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let said = [text(&output.stderr), text(&output.stdout)].into_iter().find(|it| !it.is_empty()).unwrap_or_default();
    Err(failed(output.status.to_string(), said))
}
