//! The load: oha, as a library in a process of its own, or as a binary that the user names.

pub(crate) mod record;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser as _;

use crate::clock::{Clock, unix_time};

/// A caller gives up after this long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);

/// Arguments of `demo load`.
#[derive(Debug, clap::Args)]
pub(crate) struct LoadArguments {
    /// Unix time in milliseconds at which the load starts; what is past is at once
    #[arg(long, hide = true, default_value_t = 0)]
    start_unix_ms: u64,
    /// End when standard input ends, so that it never outlives the process that started it
    #[arg(long, hide = true)]
    exit_with_stdin: bool,
    /// Arguments for oha
    #[arg(last = true)]
    oha: Vec<OsString>,
}

/// A load as it is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load<'a> {
    /// Where to send the requests.
    pub(crate) url: &'a str,
    /// Requests a second.
    pub(crate) rate: u32,
    /// Connections, each with one request at a time.
    pub(crate) connections: u32,
    /// How long.
    pub(crate) seconds: u64,
    /// The file for one line for each answer; none when nobody will read it.
    pub(crate) csv: Option<&'a Path>,
}

impl Load<'_> {
    /// The arguments that make oha carry it out.
    pub(crate) fn oha_arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["--no-tui".into(), "--disable-compression".into()];
        arguments.extend(["-z".into(), format!("{}s", self.seconds).into(), "-w".into()]);
        arguments.extend(["-q".into(), self.rate.to_string().into()]);
        arguments.extend(["-c".into(), self.connections.to_string().into()]);
        arguments.extend(["-t".into(), format!("{}s", TIMEOUT.as_secs()).into()]);
        arguments.push("--output-format".into());
        match self.csv {
            Some(csv) => arguments.extend(["csv".into(), "--output".into(), csv.into()]),
            None => arguments.push("quiet".into()),
        }
        arguments.push(self.url.into());
        arguments
    }
}

/// The arguments that make this program carry out a load from `start` (Unix time) on.
pub(crate) fn own_arguments(load: &Load<'_>, start: Duration) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["load".into(), "--exit-with-stdin".into()];
    arguments.extend(["--start-unix-ms".into(), start.as_millis().to_string().into(), "--".into()]);
    arguments.extend(load.oha_arguments());
    arguments
}

/// Waits for the start, then lets oha work.
pub(crate) async fn run(arguments: LoadArguments) -> anyhow::Result<()> {
    let command_line = std::iter::once(OsString::from("oha")).chain(arguments.oha);
    let options =
        oha::Opts::try_parse_from(command_line).context("oha does not take these arguments")?;
    let start = Duration::from_millis(arguments.start_unix_ms);
    tokio::time::sleep(start.saturating_sub(unix_time())).await;
    let stdin_ended = crate::children::stdin_ended(arguments.exit_with_stdin);
    // Large, since it holds all of oha's state.
    let load = Box::pin(oha::run(options));
    tokio::select! {
        outcome = load => outcome.context("oha failed"),
        () = stdin_ended => Ok(()),
    }
}

/// What a load's process was asked to write, and where.
#[derive(Debug)]
pub(crate) struct CsvFile(pub(crate) PathBuf);

impl CsvFile {
    /// Every request that was offered in the first `seconds` of `clock`, with its answer if there was one.
    pub(crate) fn read(
        &self,
        rate: u32,
        seconds: u32,
        clock: Clock,
    ) -> anyhow::Result<Vec<record::Offered>> {
        let path = self.0.display();
        let text =
            std::fs::read_to_string(&self.0).with_context(|| format!("cannot read {path}"))?;
        let answers = record::parse(&text).with_context(|| format!("cannot understand {path}"))?;
        Ok(record::offered(answers, rate, seconds, self.late(clock)))
    }

    /// Seconds from the clock's origin to oha's.
    ///
    /// oha counts from the moment at which it has opened this file, after up to a fifth of a second of preparations. A
    /// file system that does not know when a file was made leaves that part out.
    fn late(&self, clock: Clock) -> f64 {
        let made = std::fs::metadata(&self.0).and_then(|data| data.created()).ok();
        let made = made.and_then(|made| made.duration_since(std::time::UNIX_EPOCH).ok());
        made.map_or(0.0, |made| made.as_secs_f64() - clock.origin_unix().as_secs_f64())
            .clamp(0.0, 5.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oha_takes_the_arguments_it_is_given() {
        let csv = PathBuf::from("some where/load.csv");
        let load = Load {
            url: "http://127.0.0.1:1/",
            rate: 100,
            connections: 400,
            seconds: 131,
            csv: Some(&csv),
        };
        let own = own_arguments(&load, Duration::from_millis(1234));
        let parsed = crate::arguments::Cli::try_parse_from(
            std::iter::once(OsString::from("demo")).chain(own),
        )
        .unwrap();
        let Some(crate::arguments::Command::Load(parsed)) = parsed.command else {
            panic!("another command")
        };
        assert_eq!(parsed.start_unix_ms, 1234);
        assert_eq!(parsed.oha, load.oha_arguments());
        oha::Opts::try_parse_from(std::iter::once(OsString::from("oha")).chain(parsed.oha))
            .unwrap();
        oha::Opts::try_parse_from(
            std::iter::once(OsString::from("oha"))
                .chain(Load { csv: None, ..load }.oha_arguments()),
        )
        .unwrap();
    }

    #[tokio::test]
    async fn oha_loads_a_backend_and_its_record_is_complete() {
        let backend = crate::backend::Backend::bind(
            "127.0.0.1:0".parse().unwrap(),
            "a".to_owned(),
            crate::backend::behaviour::tests::instant(),
        );
        let backend = backend.await.unwrap();
        let url = format!("http://{}/", backend.address());
        tokio::spawn(backend.run());
        let csv = CsvFile(
            std::env::temp_dir().join(format!("tidegate-demo-{}-load.csv", std::process::id())),
        );
        let load = Load { url: &url, rate: 50, connections: 4, seconds: 1, csv: Some(&csv.0) };
        let clock = Clock::starting_in(Duration::ZERO);
        run(LoadArguments { start_unix_ms: 0, exit_with_stdin: false, oha: load.oha_arguments() })
            .await
            .unwrap();
        let offered = csv.read(50, 30, clock).unwrap();
        std::fs::remove_file(&csv.0).unwrap();
        // A busy machine may keep oha from sending all of its 50, but what it sent was answered.
        let answered = offered.iter().filter(|request| request.answer.is_some()).count();
        assert!((1..=52).contains(&answered), "{answered} of 50 requests were answered");
        assert_eq!(offered.iter().filter(|request| request.succeeded()).count(), answered);
    }
}
