//! `gpu-scheduler replay`.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use gpu_scheduler_cluster::config::RunConfig;
use gpu_scheduler_cluster::journal::{self, End, Happened, Replayed, Start};
use gpu_scheduler_engine::Config;
use serde::Serialize;
use serde_json::Value;

use crate::Failure;
use crate::output::{self, Format};

/// Flags of `replay`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A file of a journal, or a directory with all files of one
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Stop after this record of each file
    #[arg(long, value_name = "N")]
    until: Option<u64>,
    /// Print the records as JSON lines with their numbers, instead of replaying them
    #[arg(long, conflicts_with = "output")]
    print: bool,
    /// Form of the output
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

/// What `--output json` prints.
#[derive(Debug, Serialize)]
struct Report {
    identical: bool,
    files: Vec<Replayed>,
}

/// Replays file by file, prints what was found.
pub fn run(args: &Args) -> Result<(), Failure> {
    let files = journal::find(&args.paths).map_err(|e| Failure::WrongUse(e.into()))?;
    if args.print {
        return print(&files, args.until).map_err(Failure::Failed);
    }
    let files: Vec<Replayed> = files.iter().map(|file| journal::replay(file, args.until, &engine_config)).collect();
    let report = Report { identical: files.iter().all(Replayed::is_identical), files };
    let printed = match args.output {
        Format::Json => output::print_json(&report),
        Format::Table => output::print(&render(&report)),
    };
    printed.map_err(Failure::Failed)?;
    match report.files.iter().filter(|f| !f.is_identical()).count() {
        0 => Ok(()),
        failed => {
            Err(Failure::Failed(anyhow!("{failed} of {} file(s) did not replay identically", report.files.len())))
        }
    }
}

/// The engine's configuration by the one that a journal says.
fn engine_config(configuration: &Value) -> Result<Config, String> {
    let config = RunConfig::parse(&configuration.to_string());
    config.map(|config| config.engine_config()).map_err(|e| format!("the configuration in the journal: {e}"))
}

fn print(files: &[PathBuf], until: Option<u64>) -> anyhow::Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for file in files {
        let end = journal::print(file, until, &mut out).context("cannot write to standard output")??;
        if end == End::CutShort {
            out.flush().context("cannot write to standard output")?;
            eprintln!("note: {}", cut_short(file));
        }
    }
    out.flush().context("cannot write to standard output")
}

fn cut_short(file: &Path) -> String {
    format!("{} ends in the middle: the process died, or still writes it; whole records were read", file.display())
}

fn render(report: &Report) -> String {
    let mut table = output::table(&["FILE", "RECORDS", "EVENTS", "ACTIONS", "RESULT"]);
    for file in &report.files {
        let name = file.file.file_name().map_or_else(|| file.file.display().to_string(), |n| n.display().to_string());
        let numbers = [file.records, file.events, file.actions].map(|n| n.to_string());
        let [records, events, actions] = &numbers;
        table.add_row([name.as_str(), records, events, actions, result(&file.result)]);
    }
    let mut text = output::lines(&table);
    for file in &report.files {
        if file.cut_short {
            text += &format!("\nnote: {}\n", cut_short(&file.file));
        }
        if let Some(Start::Gap(why)) = &file.start {
            text += &format!("\nnote: records are missing before {}: {why}\n", file.file.display());
        }
        text += &details(file);
    }
    text
}

fn result(happened: &Happened) -> &'static str {
    match happened {
        Happened::Identical => "identical",
        Happened::Empty => "empty",
        Happened::Different(_) => "different",
        Happened::Panicked { .. } => "panicked",
        Happened::Unreadable { .. } => "unreadable",
    }
}

fn details(file: &Replayed) -> String {
    let name = file.file.display();
    let lines = |context: &[String]| context.iter().map(|line| format!("    {line}\n")).collect::<String>();
    match &file.result {
        Happened::Identical | Happened::Empty => String::new(),
        Happened::Different(d) => format!(
            "\n{name}: record {} at {}\n  expected {}\n  got      {}\n  the last events before it:\n{}",
            d.record,
            d.now,
            d.expected,
            d.got,
            lines(&d.context)
        ),
        Happened::Panicked { record, message, context } => format!(
            "\n{name}: the engine panicked at record {record}: {message}\n  the last events up to it:\n{}",
            lines(context)
        ),
        Happened::Unreadable { why } => format!("\n{why}\n"),
    }
}
