//! Whether a program is ready: asked until it is.

use std::time::{Duration, Instant};

use http::Request;
use kube::Client;
use tokio::time::{sleep, timeout};

use super::ControlPlaneError;
use super::process::Program;

/// How long a program has. On idle cores all need less than five seconds; a busy machine is no error.
const PATIENCE: Duration = Duration::from_secs(120);
/// Nobody tells us when a server is ready, so it is asked, this often.
const PAUSE: Duration = Duration::from_millis(20);

/// Returns when `GET path` succeeds; fails when the program has ended or its time is over.
pub(super) async fn until_ready(program: &mut Program, client: &Client, path: &str) -> Result<(), ControlPlaneError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        program.check()?;
        let request = Request::get(path).body(Vec::new()).expect("our paths are well formed");
        let answer = match timeout(Duration::from_secs(5), client.request_text(request)).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "none".to_owned(),
        };
        if Instant::now() >= deadline {
            let (program, log) = (program.name(), program.end_of_log());
            return Err(ControlPlaneError::NotReady { program, patience: PATIENCE, answer, log });
        }
        sleep(PAUSE).await;
    }
}
