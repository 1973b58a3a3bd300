//! The page around the charts.

use std::fmt::Write;

use super::escape;
use super::figures::figures;
use crate::report::{Comparison, Outcome};

/// Nothing may be loaded; only the page's own style counts.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Colours of Okabe and Ito, told apart by the colour-blind; lines differ in their dashes as well.
const STYLE: &str = "
:root { color-scheme: light dark; --back: #ffffff; --text: #1d2129; --soft: #5b6472; --rule: #dfe3e8;
  --c0: #0072b2; --c1: #d55e00; --c2: #00805f; --c3: #b3478d; --c4: #8a6d00; --c5: #2e86c1; --c6: #555555;
  --c7: #7d3c98; --c8: #a04000; }
@media (prefers-color-scheme: dark) {
  :root { --back: #14171c; --text: #e6e9ee; --soft: #a0a8b4; --rule: #333a44;
    --c0: #56b4e9; --c1: #f08c3a; --c2: #2fc79a; --c3: #e08fc3; --c4: #f0e442; --c5: #8ec9f0; --c6: #b5b5b5;
    --c7: #c39bd3; --c8: #e59866; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 72rem; background: var(--back); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .5rem; }
p { margin: .5rem 0 1rem; max-width: 46rem; }
.soft { color: var(--soft); font-size: .875rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .8125rem; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: .35rem .6rem .35rem 0; text-align: right; border-bottom: 1px solid var(--rule); }
th:first-child, td:first-child { text-align: left; }
thead th { color: var(--soft); font-weight: 600; }
tbody th { font-weight: 600; }
figure { margin: 2rem 0 0; max-width: 56rem; }
figcaption { font-weight: 600; margin-bottom: .25rem; }
figure > svg { display: block; width: 100%; height: auto; }
.grid { stroke: var(--rule); stroke-width: 1; }
.tick, .axis { fill: var(--soft); font: 12px system-ui, sans-serif; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.band { opacity: .18; stroke: none; }
.s0 { stroke: var(--c0); } .s1 { stroke: var(--c1); stroke-dasharray: 7 3; }
.s2 { stroke: var(--c2); stroke-dasharray: 2 3; } .s3 { stroke: var(--c3); stroke-dasharray: 9 3 2 3; }
.s4 { stroke: var(--c4); stroke-dasharray: 12 4; } .s5 { stroke: var(--c5); stroke-dasharray: 4 2; }
.s6 { stroke: var(--c6); stroke-dasharray: 1 2; } .s7 { stroke: var(--c7); stroke-dasharray: 9 2 2 2 2 2; }
.s8 { stroke: var(--c8); stroke-dasharray: 5 5; }
.band.s0, .bar.s0 { fill: var(--c0); } .band.s1, .bar.s1 { fill: var(--c1); } .band.s2, .bar.s2 { fill: var(--c2); }
.band.s3, .bar.s3 { fill: var(--c3); } .band.s4, .bar.s4 { fill: var(--c4); } .band.s5, .bar.s5 { fill: var(--c5); }
.band.s6, .bar.s6 { fill: var(--c6); } .band.s7, .bar.s7 { fill: var(--c7); } .band.s8, .bar.s8 { fill: var(--c8); }
.bar, .band { stroke: none; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: .25rem 0 0; padding: 0 0 0 7%;
  font-size: .875rem; }
.key { width: 28px; height: 10px; margin-right: .4rem; vertical-align: middle; }
";

/// The report of an experiment as a page.
pub fn page(title: &str, outcomes: &[Outcome]) -> String {
    let title = escape(title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    );
    match Comparison::of(outcomes) {
        Some(comparison) => comparison_table(&mut page, &comparison),
        None => page.push_str("<p>Nothing arrived, so there is nothing to show.</p>\n"),
    }
    for figure in figures(outcomes) {
        page.push_str(&figure);
        page.push('\n');
    }
    page.push_str(
        "<p class=\"soft\">Written by gpu-scheduler simulate. Decisions per second are wall time of one machine, \
        lower where runs shared it; all other numbers are the same on every machine.</p>\n</main>\n</body>\n</html>\n",
    );
    page
}

fn comparison_table(page: &mut String, comparison: &Comparison) {
    let _ = write!(
        page,
        "<p>{}</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Comparison\">\n",
        escape(&comparison.head)
    );
    page.push_str("<table>\n<thead><tr>");
    for column in &comparison.columns {
        let _ = write!(page, "<th scope=\"col\">{}</th>", escape(&sentence(column)));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in &comparison.rows {
        page.push_str("<tr>");
        for (n, cell) in row.iter().enumerate() {
            let cell = escape(cell);
            let _ =
                if n == 0 { write!(page, "<th scope=\"row\">{cell}</th>") } else { write!(page, "<td>{cell}</td>") };
        }
        page.push_str("</tr>\n");
    }
    let _ = write!(page, "</tbody>\n</table>\n</div>\n<p class=\"soft\">{}</p>\n", escape(comparison.foot));
}

/// `MEAN WAIT` as `Mean wait`.
fn sentence(column: &str) -> String {
    let mut letters = column.chars();
    letters.next().map_or_else(String::new, |first| first.to_string() + &letters.as_str().to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_without_runs_says_so() {
        let page = page("<script>alert(1)</script>", &[]);
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && !page.contains("<script>"));
        assert!(page.contains("Nothing arrived"));
    }
}
