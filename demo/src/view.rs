//! What a run looks like while it goes on: a picture that is redrawn every second in a terminal, plain lines elsewhere.

mod screen;

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Context as _;

use crate::fault::Fault;
use crate::observe::{Decision, Observed};
use crate::timeline::Timeline;
use crate::verdict::percent;
use screen::Size;

/// Seconds of success that a row of the picture draws, in a terminal of this many columns.
const fn spark_seconds(columns: usize) -> u32 {
    if columns >= 94 { 24 } else { 8 }
}

/// Decisions that the picture shows.
const EVENTS_SHOWN: usize = 10;
/// Decisions of one proxy and second that plain lines show: a zone that fails ejects all its endpoints at once.
const EVENTS_PER_SECOND: usize = 6;

/// The view of a run; a terminal is given back as it was when it is dropped.
#[derive(Debug)]
pub(crate) struct View {
    fault: Fault,
    timeline: Timeline,
    plain: bool,
}

impl View {
    /// Takes over the terminal, unless lines are to be plain.
    pub(crate) fn new(fault: Fault, timeline: Timeline, plain: bool) -> Self {
        let view = Self { fault, timeline, plain };
        if !plain {
            view.put("\x1b[?1049h\x1b[?25l\x1b[?7l"); // other screen, no cursor, no line wrap
        }
        view
    }

    /// Shows a second; `news` has the number of new decisions of each proxy.
    pub(crate) fn show(
        &self,
        second: u32,
        observed: &[Observed],
        news: &[usize],
    ) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        if self.plain {
            out.write_all(self.lines(second, observed, news).as_bytes())
        } else {
            let size = Size::of_terminal();
            let lines = screen::fit(&self.picture(second, observed, size.columns), size);
            // Each line is cleared to its end, and what is below the last one: no flicker.
            write!(out, "\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\n"))
        }
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
    }

    fn put(&self, codes: &str) {
        let mut out = std::io::stdout();
        let put = out.write_all(codes.as_bytes()).and_then(|()| out.flush());
        debug_assert!(put.is_ok() || !self.plain, "a terminal that is gone needs no codes");
    }

    fn lines(&self, second: u32, observed: &[Observed], news: &[usize]) -> String {
        let mut text = String::new();
        for proxies in observed.chunk_by(|one, other| one.policy == other.policy) {
            add_line(
                &mut text,
                &format!(
                    "{second:4}s {:9} {}",
                    self.timeline.name_at(second),
                    summary(second, proxies)
                ),
            );
        }
        for (proxy, new) in observed.iter().zip(news) {
            let latest = proxy.decisions.iter().rev().take(*new).rev();
            let shown: Vec<&Decision> = latest.filter(|decision| !decision.is_routine()).collect();
            for decision in shown.iter().take(EVENTS_PER_SECOND) {
                add_line(&mut text, &event(proxy, decision));
            }
            let more = shown.len().saturating_sub(EVENTS_PER_SECOND);
            if more > 0 {
                add_line(
                    &mut text,
                    &format!("        {} {}: {more} more", proxy.policy, proxy.zone),
                );
            }
        }
        text
    }

    fn picture(&self, second: u32, observed: &[Observed], columns: usize) -> String {
        let sparks = spark_seconds(columns);
        let phase = self.timeline.name_at(second);
        let mut text = format!("\n  Tidegate failure demo   {}\n", self.progress(second));
        let what = match phase {
            "fault" => format!("\x1b[1;31mfault\x1b[0m: {}", self.fault.describe()),
            "recovery" => "recovery: zone a is healed".to_owned(),
            _ => format!("{phase}: all zones are well"),
        };
        add_line(&mut text, &format!("  {what}"));
        for proxies in observed.chunk_by(|one, other| one.policy == other.policy) {
            let title = proxies.first().map_or("", |proxy| proxy.policy.title());
            add_line(&mut text, &format!("\n  \x1b[1m{title}\x1b[0m"));
            let width = sparks as usize + 8;
            add_line(
                &mut text,
                &format!(
                    "\x1b[2m  callers  {:<width$} to a    b    c   load  pool            reason\x1b[0m",
                    "success"
                ),
            );
            for proxy in proxies {
                add_line(&mut text, &row(proxy, second, sparks));
            }
        }
        add_line(&mut text, "\n  \x1b[1mDecisions\x1b[0m");
        let mut decisions: Vec<(&Observed, &Decision)> = observed
            .iter()
            .flat_map(|proxy| proxy.decisions.iter().map(move |decision| (proxy, decision)))
            .filter(|(_, decision)| !decision.is_routine())
            .collect();
        decisions.sort_by(|one, other| other.1.at.total_cmp(&one.1.at));
        decisions
            .iter()
            .take(EVENTS_SHOWN)
            .for_each(|(proxy, decision)| add_line(&mut text, &event(proxy, decision)));
        text
    }

    fn progress(&self, second: u32) -> String {
        let bar: String = (0..self.timeline.end)
            .step_by(4)
            .map(|at| match self.timeline.name_at(at) {
                "fault" if at <= second => "\x1b[31m█\x1b[0m",
                "fault" => "\x1b[31m░\x1b[0m",
                _ if at <= second => "█",
                _ => "░",
            })
            .collect();
        format!("{bar} {second} s of {} s", self.timeline.end)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if !self.plain {
            self.put("\x1b[?7h\x1b[?25h\x1b[?1049l");
        }
    }
}

/// One policy in one line: success by client zone, and what its proxy in zone a does.
fn summary(second: u32, proxies: &[Observed]) -> String {
    let Some(first) = proxies.first() else { return String::new() };
    let success = proxies.iter().fold(String::new(), |text, proxy| {
        text + &format!(" {}{:>7}", proxy.zone, share(last_second(proxy, second).success()))
    });
    let sent = last_second(first, second).by_zone.map(|count| format!("{count:.0}")).join("/");
    let state = first.samples.last().map(|sample| sample.state.clone()).unwrap_or_default();
    format!(
        "{:8}{success}  a sends {sent:<10} load {:>5}  active {}+{}  ejected {}  {}",
        first.policy.name(),
        load(state.load),
        state.active_local,
        state.active_remote,
        state.ejected,
        state.reason
    )
}

fn last_second(proxy: &Observed, second: u32) -> crate::observe::Counters {
    proxy.between(second.saturating_sub(1), second)
}

fn row(proxy: &Observed, second: u32, sparks: u32) -> String {
    let counters = last_second(proxy, second);
    let state = proxy.samples.last().map(|sample| sample.state.clone()).unwrap_or_default();
    let [a, b, c] = counters.by_zone;
    let spark: String = (second.saturating_sub(sparks)..second)
        .map(|from| spark(proxy.between(from, from + 1).success()))
        .collect();
    let width = sparks as usize;
    let endpoints = format!("{}+{}", state.active_local, state.active_remote);
    let ejected = if state.ejected > 0 {
        format!("\x1b[31m{} ejected\x1b[0m", state.ejected)
    } else {
        " ".repeat(9)
    };
    format!(
        "  zone {}   {} {spark:<width$} {a:4.0} {b:4.0} {c:4.0}  {:>5}  {endpoints:<5} {ejected}  {}",
        proxy.zone,
        colored(counters.success()),
        load(state.load),
        state.reason
    )
}

fn spark(success: Option<f64>) -> char {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 7")]
    let step = |success: f64| (success.clamp(0.0, 1.0) * 7.0).floor() as usize;
    success.and_then(|success| STEPS.get(step(success)).copied()).unwrap_or(' ')
}

fn colored(success: Option<f64>) -> String {
    let color = match success {
        None => "2",
        Some(success) if success >= 0.99 => "32",
        Some(success) if success >= 0.9 => "33",
        Some(_) => "1;31",
    };
    format!("\x1b[{color}m{:>8}\x1b[0m", share(success))
}

fn share(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), percent)
}

fn load(load: Option<f64>) -> String {
    load.map_or_else(|| "–".to_owned(), |load| format!("{load:.2}"))
}

fn event(proxy: &Observed, decision: &Decision) -> String {
    let Decision { at, change, reason, endpoint, detail, .. } = decision;
    let endpoint = endpoint.as_deref().map(|endpoint| format!(" {endpoint}")).unwrap_or_default();
    let why = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    format!("  {at:6.1}s {} {}: {change}{endpoint}{why} {detail}", proxy.policy, proxy.zone)
}

fn add_line(text: &mut String, line: &str) {
    let added = writeln!(text, "{line}");
    debug_assert!(added.is_ok(), "a string takes any text");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::tests::record;
    use crate::policy::{Policy, ZONES};

    fn observed(timeline: &Timeline) -> Vec<Observed> {
        let make = |policy| {
            record(policy, timeline, |zone, _| if zone == "a" { (0.5, 0.25) } else { (1.0, 0.0) })
        };
        let records = [make(Policy::Pinned), make(Policy::Adaptive)];
        records.into_iter().flat_map(|record| record.zones).map(|zone| zone.observed).collect()
    }

    fn decision() -> Decision {
        Decision {
            number: 1,
            at: 31.2,
            change: "widen".to_owned(),
            reason: "failure".to_owned(),
            endpoint: None,
            detail: "share 1.00→0.62".to_owned(),
        }
    }

    #[test]
    fn a_plain_second_is_a_line_for_each_policy_and_the_decisions() {
        let timeline = Timeline::FULL;
        let mut observed = observed(&timeline);
        observed[3].decisions.push(decision());
        let view = View::new(Fault::Fast, timeline, true);
        let text = view.lines(40, &observed, &[0, 0, 0, 1, 0, 0]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        let wanted = "  40s fault     pinned   a   50 % b  100 % c  100 %  a sends 75/25/0 ";
        assert!(lines[0].starts_with(wanted), "{text}");
        assert_eq!(lines[2], "    31.2s adaptive a: widen (failure) share 1.00→0.62");
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn the_picture_shows_every_policy_and_zone_and_the_decisions() {
        let timeline = Timeline::FULL;
        let mut observed = observed(&timeline);
        observed[3].decisions.push(decision());
        let view = View::new(Fault::Fast, timeline, true);
        observed[3].decisions.push(Decision { change: "probed".to_owned(), ..decision() });
        let picture = view.picture(40, &observed, 120);
        assert!(!picture.contains("probed"), "{picture}");
        for wanted in [
            "Strict zone pinning",
            "Tidegate, adaptive",
            "zone c",
            "40 s of 130 s",
            "share 1.00→0.62",
        ] {
            assert!(picture.contains(wanted), "{wanted} is missing in {picture}");
        }
        assert_eq!(picture.matches("  zone ").count(), 2 * ZONES.len());
        // All figures stand in a terminal of 80 columns and 24 rows.
        let small = Size { columns: 80, rows: 24 };
        let lines = screen::fit(&view.picture(40, &observed, small.columns), small).join("\n");
        assert_eq!(lines.matches("  zone ").count(), 2 * ZONES.len(), "{lines}");
        assert_eq!(lines.matches("reason").count(), 2, "{lines}");
        assert!(lines.contains("share 1.00"), "{lines}");
    }
}
