//! An experiment as a YAML file.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::Settings;

/// What is wrong with a plan.
#[derive(Debug, Error)]
pub enum PlanError {
    /// It cannot be read.
    #[error("cannot read the plan {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It makes no sense.
    #[error("{path}{place}: {what}")]
    Content {
        /// The file.
        path: PathBuf,
        /// The field and the line, as far as known.
        place: String,
        /// What is wrong and what to do.
        what: String,
    },
}

/// Reads a plan. Relative paths in it count from its folder; `${NAME}` in a path is that environment variable.
///
/// # Errors
/// Where it cannot be read, has unknown fields or wrong values, or names a variable that is not set.
pub fn read_plan(path: &Path) -> Result<Settings, PlanError> {
    let text = std::fs::read_to_string(path).map_err(|source| PlanError::Io { path: path.into(), source })?;
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    parse(path, &text, &variable)
}

fn parse(path: &Path, text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Settings, PlanError> {
    let content = |place: String, what: String| PlanError::Content { path: path.into(), place, what };
    let options = serde_saphyr::options! { with_snippet: false };
    let mut field = String::new();
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
        serde_path_to_error::deserialize(deserializer).map_err(|error| {
            field = error.path().to_string();
            error.into_inner()
        })
    });
    let mut settings: Settings = read.map_err(|error| {
        let line = error.location().map(|at| format!(", line {}", at.line())).unwrap_or_default();
        let field = if field.is_empty() || field == "." { String::new() } else { format!(", field {field}") };
        content(line + &field, message(&error))
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    for (field, path) in paths(&mut settings) {
        let text =
            expand(&path.to_string_lossy(), variable).map_err(|what| content(format!(", field {field}"), what))?;
        *path = folder.join(text);
    }
    Ok(settings)
}

/// The parser's words without its place.
fn message(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().render_with_formatter(&serde_saphyr::UserMessageFormatter);
    let first = text.lines().next().unwrap_or_default();
    first.split(" at line ").next().unwrap_or(first).to_owned()
}

/// All paths of a plan, with the names of their fields.
fn paths(settings: &mut Settings) -> Vec<(&'static str, &mut PathBuf)> {
    let report = &mut settings.report;
    let single = [
        ("nodes", &mut settings.nodes),
        ("pods", &mut settings.pods),
        ("jobs-file", &mut settings.jobs_file),
        ("report.json", &mut report.json),
        ("report.html", &mut report.html),
        ("report.table", &mut report.table),
    ];
    let named = single.into_iter().filter_map(|(name, path)| Some((name, path.as_mut()?)));
    named.chain(settings.order.iter_mut().map(|path| ("order", path))).collect()
}

/// Puts environment variables in.
fn expand(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut rest = text;
    let mut done = String::new();
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').ok_or_else(|| format!("{text:?} opens ${{ and does not close it"))?;
        let value = variable(name).ok_or_else(|| {
            format!("the environment variable {name} is not set; set it, or write the path itself into the plan")
        })?;
        done.push_str(before);
        done.push_str(&value);
        rest = after;
    }
    Ok(done + rest)
}

#[cfg(test)]
mod tests {
    use gpu_scheduler_engine::Policy;

    use super::*;
    use crate::experiment::TraceName;
    use crate::{Permille, Seeds};

    fn read(text: &str) -> Result<Settings, String> {
        let variable = |name: &str| (name == "OPENB").then(|| "/data".to_owned());
        parse(Path::new("plans/a.yaml"), text, &variable).map_err(|e| e.to_string())
    }

    #[test]
    fn a_whole_plan() {
        let settings = read(
            "title: Steady\ntrace: openb\nnodes: ${OPENB}/nodes.csv\npods: pods.csv\npolicies: [fgd, spread]\n\
             seeds: 42..44\nload: 0.95\nstay: 60\nwarm-up: 1\nmeasure: 2\nreport: {html: out/a.html}\n",
        )
        .unwrap();
        let expected = Settings {
            title: Some("Steady".into()),
            trace: Some(TraceName::Openb),
            nodes: Some("/data/nodes.csv".into()),
            pods: Some("plans/pods.csv".into()),
            policies: vec![Policy::Fgd, Policy::Spread],
            seeds: Some(Seeds(vec![42, 43, 44])),
            load: Some(Permille(950)),
            stay: Some(60),
            warm_up: Some(1),
            measure: Some(2),
            report: super::super::ReportFiles { html: Some("plans/out/a.html".into()), ..Default::default() },
            ..Settings::default()
        };
        assert_eq!(settings, expected);
        let settings = read("order: ['o.{seed}.txt']\nseeds: [7, 9]\ncluster: 4x8\ninflate: 2\n").unwrap();
        assert_eq!(settings.order_files(), [PathBuf::from("plans/o.7.txt"), PathBuf::from("plans/o.9.txt")]);
        assert_eq!((settings.cluster.unwrap().total(), settings.inflate), (32, Some(Permille(2000))));
    }

    #[test]
    fn errors_name_the_place() {
        for (text, words) in [
            ("trace: openb\nlaod: 1\n", vec!["line 2", "laod"]),
            ("trace: closedb\n", vec!["line 1", "field trace", "closedb"]),
            ("policies: [magic]\n", vec!["field policies", "magic", "best-fit"]),
            ("seeds: 3..1\n", vec!["field seeds", "empty"]),
            ("load: fast\n", vec!["field load", "fast"]),
            ("cluster: 8\n", vec!["field cluster", "64x8"]),
            ("report: {pdf: x}\n", vec!["report", "pdf"]),
            ("nodes: ${NOWHERE}/nodes.csv\n", vec!["field nodes", "NOWHERE", "not set"]),
            ("nodes: ${OPENB/nodes.csv\n", vec!["field nodes", "close"]),
            ("{{", vec!["a.yaml"]),
        ] {
            let error = read(text).unwrap_err();
            for word in words {
                assert!(error.contains(word), "{text}: {error}");
            }
        }
    }
}
