//! Charts as SVG.

use std::fmt::Write;

use super::escape;
use crate::report::Summary;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 42.0;
/// How many ticks an axis should have, about.
const X_TICKS: f64 = 12.0;
const Y_TICKS: f64 = 6.0;
/// So many colours there are.
const COLOURS: usize = 9;
/// Keys of the legend.
const LINE_KEY: &str = "<path d=\"M0 5h28\" class=\"line";
const BAR_KEY: &str = "<path d=\"M0 0h28v10h-28z\" class=\"bar";

/// A chart's words.
pub(super) struct Words<'a> {
    /// Unique on the page.
    pub id: &'a str,
    /// What it shows.
    pub title: &'a str,
    /// The same for those who do not see it.
    pub description: &'a str,
    /// The axes.
    pub x: &'a str,
    /// The axes.
    pub y: &'a str,
}

/// One line, and the band between the least and the largest of several runs.
pub(super) struct Line<'a> {
    pub name: &'a str,
    pub points: Vec<(f64, Summary)>,
}

/// Bars side by side, one group for each of the names.
pub(super) struct Bars<'a> {
    pub name: &'a str,
    pub values: Vec<Summary>,
}

/// From data to the drawing.
struct Frame {
    x: (f64, f64),
    y: (f64, f64),
}

impl Frame {
    fn x(&self, value: f64) -> f64 {
        LEFT + (value - self.x.0) / (self.x.1 - self.x.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (value - self.y.0) / (self.y.1 - self.y.0) * (HEIGHT - TOP - BOTTOM)
    }

    fn horizontal_grid(&self, svg: &mut String) {
        for tick in ticks(self.y, Y_TICKS) {
            let y = self.y(tick);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                label(tick)
            );
        }
    }

    fn tick_below(svg: &mut String, x: f64, text: &str) {
        let y = HEIGHT - BOTTOM + 17.0;
        let _ = write!(
            svg,
            "<text class=\"tick\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
            escape(text)
        );
    }
}

/// A chart of lines over numbers; `at_least` is within the y axis in any case.
pub(super) fn lines(words: &Words<'_>, lines: &[Line<'_>], at_least: (f64, f64)) -> String {
    let xs = lines.iter().flat_map(|l| l.points.iter().map(|(x, _)| *x));
    let ys = lines.iter().flat_map(|l| l.points.iter().flat_map(|(_, s)| [s.min, s.max]));
    let frame = Frame { x: span(xs, None), y: nice(span(ys, Some(at_least))) };
    let mut svg = open(words);
    frame.horizontal_grid(&mut svg);
    for tick in ticks(frame.x, X_TICKS) {
        Frame::tick_below(&mut svg, frame.x(tick), &label(tick));
    }
    for (n, line) in lines.iter().enumerate() {
        let at = |x: f64, y: f64| format!("{:.1},{:.1}", frame.x(x), frame.y(y));
        if line.points.iter().any(|(_, s)| s.max > s.min) {
            let upper = line.points.iter().map(|(x, s)| at(*x, s.max));
            let lower = line.points.iter().rev().map(|(x, s)| at(*x, s.min));
            let outline: Vec<String> = upper.chain(lower).collect();
            let _ = write!(svg, "<polygon class=\"band s{}\" points=\"{}\"/>", n % COLOURS, outline.join(" "));
        }
    }
    for (n, line) in lines.iter().enumerate() {
        let points: Vec<String> =
            line.points.iter().map(|(x, s)| format!("{:.1},{:.1}", frame.x(*x), frame.y(s.mean))).collect();
        let _ = write!(
            svg,
            "<polyline class=\"line s{}\" points=\"{}\"><title>{}</title></polyline>",
            n % COLOURS,
            points.join(" "),
            escape(line.name)
        );
    }
    close(svg, words, LINE_KEY, lines.iter().map(|l| l.name))
}

/// A chart of bars over groups.
pub(super) fn bars(words: &Words<'_>, groups: &[&str], series: &[Bars<'_>]) -> String {
    let ys = series.iter().flat_map(|s| s.values.iter().flat_map(|v| [v.mean, v.max]));
    let frame = Frame { x: (0.0, groups.len().max(1) as f64), y: nice(span(ys, Some((0.0, 0.0)))) };
    let mut svg = open(words);
    frame.horizontal_grid(&mut svg);
    let width = 0.8 / series.len().max(1) as f64;
    for (g, group) in groups.iter().enumerate() {
        Frame::tick_below(&mut svg, frame.x(g as f64 + 0.5), group);
        for (n, one) in series.iter().enumerate() {
            let Some(value) = one.values.get(g) else { continue };
            let left = frame.x(g as f64 + 0.1 + width * n as f64);
            let right = frame.x(g as f64 + 0.1 + width * (n as f64 + 0.9));
            let (top, bottom) = (frame.y(value.mean), frame.y(frame.y.0));
            let _ = write!(
                svg,
                "<rect class=\"bar s{}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
                 <title>{}, {}: {}</title></rect>",
                n % COLOURS,
                right - left,
                (bottom - top).max(0.0),
                escape(one.name),
                escape(group),
                escape(&value.text(2))
            );
        }
    }
    close(svg, words, BAR_KEY, series.iter().map(|s| s.name))
}

fn open(words: &Words<'_>) -> String {
    let (id, title) = (escape(words.id), escape(words.title));
    let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
    let height = TOP + (HEIGHT - TOP - BOTTOM) / 2.0;
    format!(
        "<figure><figcaption>{title}</figcaption>\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-labelledby=\"{id}-title {id}-text\">\
         <title id=\"{id}-title\">{title}</title><desc id=\"{id}-text\">{}</desc>\
         <text class=\"axis\" text-anchor=\"middle\" x=\"{middle}\" y=\"{:.1}\">{}</text>\
         <text class=\"axis\" text-anchor=\"middle\" transform=\"translate(13 {height}) rotate(-90)\">{}</text>",
        escape(words.description),
        HEIGHT - 6.0,
        escape(words.x),
        escape(words.y),
    )
}

/// Ends the chart with its legend.
fn close<'a>(mut svg: String, words: &Words<'_>, key: &str, names: impl Iterator<Item = &'a str>) -> String {
    svg.push_str("</svg>");
    let _ = write!(svg, "<ul class=\"legend\" aria-label=\"Legend of {}\">", escape(words.title));
    for (n, name) in names.enumerate() {
        let _ = write!(
            svg,
            "<li><svg class=\"key\" viewBox=\"0 0 28 10\" aria-hidden=\"true\">\
             {key} s{}\"/></svg>{}</li>",
            n % COLOURS,
            escape(name)
        );
    }
    svg.push_str("</ul></figure>");
    svg
}

/// The range of numbers, never empty.
fn span(values: impl Iterator<Item = f64>, at_least: Option<(f64, f64)>) -> (f64, f64) {
    let start = at_least.unwrap_or((f64::INFINITY, f64::NEG_INFINITY));
    let (low, high) = values.filter(|v| v.is_finite()).fold(start, |(a, b), v| (a.min(v), b.max(v)));
    match high - low {
        width if width > 0.0 && width.is_finite() => (low, high),
        _ if low.is_finite() => (low, low + 1.0),
        _ => (0.0, 1.0),
    }
}

/// The range widened to whole steps.
fn nice((low, high): (f64, f64)) -> (f64, f64) {
    let step = step((low, high), Y_TICKS);
    ((low / step).floor() * step, (high / step).ceil() * step)
}

/// A step of 1, 2 or 5 times a power of ten, for about `wanted` ticks.
fn step((low, high): (f64, f64), wanted: f64) -> f64 {
    let rough = (high - low) / wanted;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = rough / power;
    power
        * if factor <= 1.0 {
            1.0
        } else if factor <= 2.0 {
            2.0
        } else if factor <= 5.0 {
            5.0
        } else {
            10.0
        }
}

fn ticks(range: (f64, f64), wanted: f64) -> Vec<f64> {
    let step = step(range, wanted);
    let (first, last) = ((range.0 / step - 1e-9).ceil() as i64, (range.1 / step + 1e-9).floor() as i64);
    (first..=last).map(|n| n as f64 * step).collect()
}

/// At most three decimals, thousands as `k`.
fn label(value: f64) -> String {
    let (value, unit) = if value.abs() >= 10_000.0 { (value / 1000.0, "k") } else { (value, "") };
    let text = format!("{value:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes() {
        assert_eq!(ticks((0.0, 130.0), 6.0), [0.0, 50.0, 100.0]);
        assert_eq!(ticks((80.0, 130.0), 12.0), (0..11).map(|n| 80.0 + 5.0 * f64::from(n)).collect::<Vec<_>>());
        assert_eq!(nice((61.0, 97.0)), (60.0, 100.0));
        assert_eq!(span([].into_iter(), None), (0.0, 1.0));
        assert_eq!(span([3.0, f64::NAN].into_iter(), None), (3.0, 4.0));
        for (value, text) in [(0.0, "0"), (0.25, "0.25"), (100.0, "100"), (20_000.0, "20k"), (12_500.0, "12.5k")] {
            assert_eq!(label(value), text);
        }
    }

    #[test]
    fn words_are_escaped() {
        let words = Words { id: "a", title: "a<b", description: "\"&\"", x: "<x>", y: "y" };
        let point = |x: f64, mean: f64| (x, Summary::of([mean, mean + 1.0]));
        let chart = lines(&words, &[Line { name: "<i>", points: vec![point(0.0, 1.0), point(1.0, 2.0)] }], (0.0, 0.0));
        assert!(chart.contains("a&lt;b") && chart.contains("&quot;&amp;&quot;") && !chart.contains("<i>"), "{chart}");
        assert!(chart.contains("polygon"), "several runs make a band");
        let chart = bars(&words, &["1"], &[Bars { name: "p", values: vec![Summary::of([2.0])] }]);
        assert!(chart.contains("p, 1: 2.00"), "{chart}");
    }
}
