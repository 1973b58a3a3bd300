//! One control daemon, from its start to its end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::MpsOptions;
use super::access::folder;
use super::control::{MpsError, run};
use crate::inventory::{CardIndex, GpuUuid};
use crate::resources::ResourceName;

/// How long a daemon may take to start, and to end once it is told to.
const STARTS_WITHIN: Duration = Duration::from_secs(10);
/// How often it is asked meanwhile.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// What a daemon is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// The resource that is shared by it.
    pub resource: ResourceName,
    /// The folder of all daemons.
    pub root: PathBuf,
    /// The cards that it serves.
    pub cards: Vec<GpuUuid>,
    /// What each of equal replicas may take at most: for each card its index and MiB, and percent of the threads.
    /// `None` where each container has limits of its own.
    pub limits: Option<(Vec<(CardIndex, u64)>, u32)>,
}

/// A daemon that runs.
pub(super) struct Daemon {
    child: Child,
    plan: Plan,
    options: MpsOptions,
}

impl Plan {
    fn pipes(&self) -> PathBuf {
        folder(&self.root, &self.resource).join("pipe")
    }

    fn log(&self) -> PathBuf {
        folder(&self.root, &self.resource).join("log")
    }

    async fn tell(&self, options: &MpsOptions, command: &str) -> Result<String, MpsError> {
        let (pipes, log) = (self.pipes(), self.log());
        run(&options.control, &[], &envs(&pipes, &log), &format!("{command}\n")).await
    }

    /// Asks the daemon something that only a daemon that is well answers.
    pub async fn ask(&self, options: &MpsOptions) -> Result<(), MpsError> {
        self.tell(options, "get_default_active_thread_percentage").await.map(drop)
    }

    /// With replicas every process has to go through the server, so no other may use the cards.
    async fn compute_mode(&self, options: &MpsOptions, mode: &str) -> Result<(), MpsError> {
        if self.limits.is_some() {
            for card in &self.cards {
                run(&options.smi, &["-i", card.as_str(), "-c", mode], &[], "").await?;
            }
        }
        Ok(())
    }
}

fn envs<'a>(pipes: &'a Path, log: &'a Path) -> [(&'static str, &'a Path); 2] {
    [("CUDA_MPS_PIPE_DIRECTORY", pipes), ("CUDA_MPS_LOG_DIRECTORY", log)]
}

impl Daemon {
    /// Starts a daemon and sets its limits. When this returns it answers.
    pub async fn start(plan: &Plan, options: &MpsOptions) -> Result<Self, MpsError> {
        let (pipes, log) = (plan.pipes(), plan.log());
        for path in [&pipes, &log, &plan.root.join("shm")] {
            fs::create_dir_all(path).map_err(|source| MpsError::Folder { path: path.clone(), source })?;
        }
        plan.compute_mode(options, "EXCLUSIVE_PROCESS").await?;
        let cards = plan.cards.iter().map(GpuUuid::as_str).collect::<Vec<_>>().join(",");
        let mut command = Command::new(&options.control);
        command.arg("-f").envs(envs(&pipes, &log)).env("CUDA_VISIBLE_DEVICES", cards);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let child = command.spawn().map_err(|source| MpsError::Run { program: options.control.clone(), source })?;
        let mut daemon = Self { child, plan: plan.clone(), options: options.clone() };
        daemon.answers().await?;
        if let Some((memory, threads)) = &plan.limits {
            for (card, mib) in memory {
                let command = format!("set_default_device_pinned_mem_limit {} {mib}M", card.0);
                plan.tell(options, &command).await?;
            }
            plan.tell(options, &format!("set_default_active_thread_percentage {threads}")).await?;
        }
        Ok(daemon)
    }

    /// Waits until it answers.
    async fn answers(&mut self) -> Result<(), MpsError> {
        let until = Instant::now() + STARTS_WITHIN;
        loop {
            let problem = tokio::select! {
                ended = self.child.wait() => return Err(ended_by(ended)),
                asked = self.plan.ask(&self.options) => match asked {
                    Ok(()) => return Ok(()),
                    Err(problem) => problem,
                },
            };
            if Instant::now() >= until {
                return Err(problem);
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    /// Waits until it is not well, and says how.
    pub async fn fails(&mut self) -> MpsError {
        loop {
            tokio::select! {
                ended = self.child.wait() => return ended_by(ended),
                () = tokio::time::sleep(self.options.check_every) => {}
            }
            if let Err(problem) = self.plan.ask(&self.options).await {
                return problem;
            }
        }
    }

    /// Ends it, if need be by force, and gives the cards back.
    pub async fn stop(mut self) -> Result<(), MpsError> {
        let told = self.plan.tell(&self.options, "quit").await;
        if tokio::time::timeout(STARTS_WITHIN, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
        self.plan.compute_mode(&self.options, "DEFAULT").await?;
        told.map(drop)
    }

    /// Makes sure that nothing of it is left, so that another can start.
    pub async fn clear(mut self) {
        let _ = self.child.kill().await;
    }
}

fn ended_by(ended: std::io::Result<std::process::ExitStatus>) -> MpsError {
    MpsError::Ended(ended.map_or_else(|error| error.to_string(), |status| status.to_string()))
}
