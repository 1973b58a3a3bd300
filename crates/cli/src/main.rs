//! The `gpu-scheduler` binary: flags in, engine run, output out.

mod commands;
mod output;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Wrong use, as clap has it for wrong flags.
const WRONG_USE: u8 = 2;
/// The work failed.
const FAILED: u8 = 1;

/// A Kubernetes scheduler for GPUs: places pods by the memory and compute of single cards.
#[derive(Debug, Parser)]
#[command(name = "gpu-scheduler", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a node's agent: find its GPUs, hand them out through kubelet, report and measure them
    Agent(Box<commands::agent::Args>),
    /// Say what would happen to a dump of Kubernetes objects; nothing is changed
    Plan(commands::plan::Args),
    /// Ask the engine again what a journal of `run` says it was asked, and compare action by action
    Replay(commands::replay::Args),
    /// Schedule a cluster: watch it, decide, bind
    Run(commands::run::Args),
    /// Replay a trace under one or several policies
    Simulate(commands::simulate::Args),
}

/// How a command can fail.
#[derive(Debug)]
enum Failure {
    /// It was asked for something that makes no sense.
    WrongUse(anyhow::Error),
    /// It tried, and it did not work.
    Failed(anyhow::Error),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Agent(args) => commands::agent::run(&args),
        Command::Plan(args) => commands::plan::run(&args),
        Command::Replay(args) => commands::replay::run(&args),
        Command::Run(args) => commands::run::run(&args),
        Command::Simulate(args) => commands::simulate::run(&args),
    };
    let (error, code) = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::WrongUse(error)) => (error, WRONG_USE),
        Err(Failure::Failed(error)) if output::is_closed_pipe(&error) => return ExitCode::SUCCESS,
        Err(Failure::Failed(error)) => (error, FAILED),
    };
    eprintln!("error: {error:#}");
    ExitCode::from(code)
}
