//! The jobs of a file.

use std::path::Path;

use jiff::Unit;
use jiff::civil::DateTime;

use crate::openb::{Table, TraceError};

/// Longest duration that is believed: a hundred years.
const LONGEST_SECONDS: f64 = 3.2e9;

/// A job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// When it arrives, in seconds from the first one.
    pub arrival: u64,
    /// How long it runs, in milliseconds.
    pub duration: u64,
    /// Cards that it takes.
    pub cards: u32,
}

/// Reads the jobs in order of arrival; of those, the first `limit`.
///
/// # Errors
/// Where the file cannot be read, or a value makes no sense.
pub fn read_jobs(path: &Path, limit: Option<usize>) -> Result<Vec<Job>, TraceError> {
    let table = Table::open(path, &["timestamp", "duration", "num_gpus"], &[])?;
    let mut rows = table.rows(|row| {
        let bad_time = || row.bad("timestamp", "a time such as 2017-10-09 07:01:55");
        let time: DateTime = row.text("timestamp").parse().map_err(|_| bad_time())?;
        let seconds: f64 = row.text("duration").parse().unwrap_or(f64::NAN);
        if !(0.0..=LONGEST_SECONDS).contains(&seconds) {
            return Err(row.bad("duration", "seconds, at least 0"));
        }
        let cards = u32::try_from(row.number("num_gpus", 1 << 20)?).unwrap_or(0);
        if cards == 0 {
            return Err(row.bad("num_gpus", "at least 1 card"));
        }
        Ok((time, (seconds * 1000.0).round() as u64, cards))
    })?;
    rows.sort_by_key(|(time, ..)| *time);
    rows.truncate(limit.unwrap_or(usize::MAX));
    let Some((first, ..)) = rows.first().copied() else {
        return Err(TraceError::Content { path: path.into(), what: "no job in it; nothing can be replayed".into() });
    };
    let job = |(time, duration, cards): (DateTime, u64, u32)| {
        let since = time.since((Unit::Second, first)).map_or(0, |span| span.get_seconds());
        Job { arrival: since.cast_unsigned(), duration, cards }
    };
    Ok(rows.into_iter().map(job).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, limit: Option<usize>) -> Result<Vec<Job>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.csv");
        std::fs::write(&path, text).unwrap();
        read_jobs(&path, limit).map_err(|e| e.to_string())
    }

    #[test]
    fn jobs_in_order_of_arrival() {
        let text = "timestamp,duration,num_gpus,gpu_time,cluster\n\
            2017-10-02 00:00:30,66.5,8,528.0,b\n2017-10-01 00:00:00,1.0,1,1.0,a\n";
        let jobs = [Job { arrival: 0, duration: 1000, cards: 1 }, Job { arrival: 86_430, duration: 66_500, cards: 8 }];
        assert_eq!(read(text, None).unwrap(), jobs);
        assert_eq!(read(text, Some(1)).unwrap(), jobs[..1]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_place() {
        for (row, word) in [
            ("yesterday,1.0,1", "timestamp"),
            ("2017-10-01 00:00:00,-1,1", "duration"),
            ("2017-10-01 00:00:00,NaN,1", "duration"),
            ("2017-10-01 00:00:00,1,0", "num_gpus"),
            ("2017-10-01 00:00:00,1,x", "num_gpus"),
        ] {
            let error = read(&format!("timestamp,duration,num_gpus\n{row}\n"), None).unwrap_err();
            assert!(error.contains(word) && error.contains("line 2"), "{row}: {error}");
        }
        assert!(read("timestamp,duration,num_gpus\n", None).unwrap_err().contains("no job"));
        assert!(read("timestamp,duration\n", None).unwrap_err().contains("num_gpus"));
    }
}
