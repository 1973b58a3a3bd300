//! Kubernetes timestamps.

use gpu_scheduler_engine::model::Timestamp;

use crate::problem::Finding;

/// Reads an RFC 3339 timestamp, such as `2026-11-29T10:00:00Z`, as milliseconds since the Unix epoch.
/// What lies before the epoch counts as the epoch.
///
/// # Errors
///
/// What is wrong with the text, in words.
pub fn parse_timestamp(text: &str) -> Result<Timestamp, String> {
    let instant: jiff::Timestamp = text.parse().map_err(|e: jiff::Error| e.to_string())?;
    Ok(Timestamp(u64::try_from(instant.as_millisecond()).unwrap_or(0)))
}

/// As [`parse_timestamp`]; an unreadable text is reported and counts as absent.
pub(crate) fn read(text: Option<&str>, field: &str, findings: &mut Vec<Finding>) -> Option<Timestamp> {
    let text = text.filter(|t| !t.is_empty())?;
    match parse_timestamp(text) {
        Ok(timestamp) => Some(timestamp),
        Err(why) => {
            findings.push(Finding::new(
                field,
                format!("{text:?} is not a timestamp ({why}) and was left out"),
                "write it as RFC 3339 has it, such as 2026-11-29T10:00:00Z",
            ));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps() {
        for (text, expected) in [
            ("1970-01-01T00:00:01Z", Some(1000)),
            ("1970-01-01T01:00:01.5+01:00", Some(1500)),
            ("1960-01-01T00:00:00Z", Some(0)),
            ("2026-11-29T10:00:00.123456789Z", Some(1_795_946_400_123)),
            ("2026-11-29", None),
            ("yesterday", None),
        ] {
            assert_eq!(parse_timestamp(text).ok(), expected.map(Timestamp), "{text}");
        }
    }

    #[test]
    fn an_unreadable_one_is_reported() {
        let mut findings = Vec::new();
        assert_eq!(read(Some(""), "f", &mut findings), None);
        assert!(findings.is_empty());
        assert_eq!(read(Some("x"), "metadata.creationTimestamp", &mut findings), None);
        assert_eq!(findings[0].field, "metadata.creationTimestamp");
    }
}
