//! A run of the demo, from the first process to the exit status.

use std::cell::Cell;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::arguments::RunArguments;
use crate::clock::Clock;
use crate::fault::{Fault, Means};
use crate::hold;
use crate::load::TIMEOUT;
use crate::measure::{Record, ZoneRecord};
use crate::observe::{self, Observed};
use crate::policy::Policy;
use crate::priority;
use crate::report::{self, Report};
use crate::timeline::Timeline;
use crate::verdict::Verdict;
use crate::view::View;
use crate::world::{RunningLoad, World};

/// From the start of the loads' processes to their first request.
const LOAD_LEAD: Duration = Duration::from_millis(1500);
/// Discovery learns of a zone that went down this long after, in half seconds.
const DISCOVERY_DELAY_HALVES: u32 = 3;
/// Looks at the proxies are this much before the whole second.
const LOOK_AHEAD: Duration = Duration::from_millis(40);
/// The loads go on this long after the last measured second, so that it is a whole one.
const LOAD_TAIL_SECONDS: u32 = 1;

/// Runs the demo; exit status 0 when every promise was kept, 1 when one was not, and 128 and the signal's
/// number when a signal ended it.
pub(crate) async fn run(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    // What is interrupted is dropped, and with it every process.
    tokio::select! {
        outcome = Box::pin(demo(&arguments)) => outcome,
        interrupted = interrupted() => {
            let signal = interrupted?;
            say("stopped; nothing is left running")?;
            Ok(ExitCode::from(signal))
        }
    }
}

/// Waits for a signal that asks to end; gives the exit status of a process that it ended.
async fn interrupted() -> anyhow::Result<u8> {
    let listen = |kind| signal(kind).context("cannot listen for signals");
    let mut signals = (
        listen(SignalKind::interrupt())?,
        listen(SignalKind::terminate())?,
        listen(SignalKind::hangup())?,
    );
    Ok(tokio::select! {
        _ = signals.0.recv() => 130,
        _ = signals.1.recv() => 143,
        _ = signals.2.recv() => 129,
    })
}

async fn demo(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let timeline = if arguments.quick { Timeline::QUICK } else { Timeline::FULL };
    say(&introduction(arguments, &timeline))?;
    say(priority::describe(priority::prefer_process()))?;
    let mut world = World::start(arguments).await?;
    let targets = hold::write_targets(&world, arguments)?;
    if arguments.hold.is_some() {
        say(&hold::before(&targets))?;
    }
    let clock = Clock::starting_in(LOAD_LEAD);
    let seconds = u64::from(timeline.end + LOAD_TAIL_SECONDS);
    let mut loads = world.start_loads(arguments, clock, seconds, true).await?;
    let plain = arguments.plain || !std::io::stdout().is_terminal();
    let view = View::new(arguments.fault, timeline, plain);
    let stage = Stage { arguments, timeline, clock, switched: Cell::new(None) };
    let observed = stage.play(&mut world, &mut loads, view).await?;
    // Started while the first ones end, so that the callers hardly pause.
    let hold_loads = match arguments.hold {
        Some(limit) => {
            world
                .start_loads(arguments, Clock::starting_in(LOAD_LEAD), limit.as_secs(), false)
                .await?
        }
        None => Vec::new(),
    };
    let records = stage.collect(loads, observed).await?;
    let report = Report::new(arguments, &timeline, &records);
    let files = report::write(&report, &records, &arguments.report)?;
    say(&report::table(&report))?;
    say(&format!("{}\n{}", files.html.display(), files.json.display()))?;
    if let Some(limit) = arguments.hold {
        say(&hold::text(&world, arguments, &timeline, clock))?;
        hold::until_over(&mut world, hold_loads, limit).await?;
    }
    Ok(if report.verdict == Verdict::Fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn introduction(arguments: &RunArguments, timeline: &Timeline) -> String {
    let policies: Vec<&str> = arguments.policies().into_iter().map(Policy::name).collect();
    format!(
        "Three zones of three backends; {} requests a second from each zone under each policy ({}).\n\
         {} s warm-up and baseline, then for {} s {}, then {} s recovery.",
        arguments.rate,
        policies.join(", "),
        timeline.fault,
        timeline.heal - timeline.fault,
        arguments.fault.describe(),
        timeline.end - timeline.heal
    )
}

/// What the acts of a run share.
struct Stage<'a> {
    arguments: &'a RunArguments,
    timeline: Timeline,
    clock: Clock,
    /// When zone a began to fail, in seconds.
    switched: Cell<Option<f64>>,
}

impl Stage<'_> {
    /// Plays the timeline, and looks at every proxy once a second.
    async fn play(
        &self,
        world: &mut World,
        loads: &mut [RunningLoad],
        view: View,
    ) -> anyhow::Result<Vec<Observed>> {
        let proxies = world.proxies.iter();
        let mut observed: Vec<Observed> =
            proxies.map(|proxy| Observed::new(proxy.policy, proxy.zone, proxy.admin)).collect();
        for half in 0..=2 * self.timeline.end {
            let at = Duration::from_millis(500) * half;
            if half % 2 != 0 {
                self.clock.reach(at).await;
                self.act(world, half).await?;
                continue;
            }
            // A little before the second, so that a fault that starts then is not in what was counted before it;
            // beside it, so that a slow look does not delay the fault.
            self.clock.reach(at.saturating_sub(LOOK_AHEAD)).await;
            let act = async {
                self.clock.reach(at).await;
                self.act(world, half).await
            };
            let (news, acted) = tokio::join!(look(&mut observed, self.clock), act);
            acted?;
            world.check_running()?;
            loads.iter_mut().try_for_each(|load| load.process.check_running())?;
            view.show(half / 2, &observed, &news)?;
        }
        Ok(observed)
    }

    async fn act(&self, world: &mut World, half: u32) -> anyhow::Result<()> {
        let fault: Fault = self.arguments.fault;
        let leaves = fault.means() == Means::Kill { leave_discovery: true };
        match half {
            _ if half == 2 * self.timeline.fault => {
                self.switched.set(Some(self.clock.seconds()));
                world.fail(fault).await.context("cannot bring the fault about")
            }
            _ if half == 2 * self.timeline.fault + DISCOVERY_DELAY_HALVES && leaves => {
                world.leave_discovery()
            }
            _ if half == 2 * self.timeline.heal => {
                world.heal(fault).await.context("cannot heal the fault")
            }
            _ => Ok(()),
        }
    }

    /// Waits for the loads to end, and puts what they recorded beside what was observed.
    async fn collect(
        &self,
        loads: Vec<RunningLoad>,
        observed: Vec<Observed>,
    ) -> anyhow::Result<Vec<Record>> {
        let Stage { arguments, timeline, clock, .. } = self;
        let limit =
            TIMEOUT + Duration::from_secs(u64::from(LOAD_TAIL_SECONDS)) + Duration::from_secs(15);
        let mut records: Vec<Record> = arguments
            .policies()
            .into_iter()
            .map(|policy| Record { policy, zones: Vec::new() })
            .collect();
        for (load, observed) in loads.into_iter().zip(observed) {
            debug_assert_eq!(
                (load.policy, load.zone),
                (observed.policy, observed.zone),
                "one load for each proxy, in order"
            );
            load.process.finish(limit).await?;
            let mut offered = load.csv.read(arguments.rate, timeline.end, *clock)?;
            if let Some(switched) = self.switched.get() {
                let fault = f64::from(timeline.fault);
                for request in &mut offered {
                    request.put_to_fault(switched, fault, TIMEOUT.as_secs_f64());
                }
            }
            let record = records.iter_mut().find(|record| record.policy == load.policy);
            let record = record.context("a load of no policy")?;
            record.zones.push(ZoneRecord { zone: load.zone, offered, observed });
        }
        Ok(records)
    }
}

/// Looks at every proxy at the same time; gives, for each, how many decisions are new.
async fn look(observed: &mut [Observed], clock: Clock) -> Vec<usize> {
    let mut looks = JoinSet::new();
    for (index, proxy) in observed.iter().enumerate() {
        let (admin, zone) = (proxy.admin, proxy.zone);
        looks.spawn(async move { (index, observe::look(admin, zone, clock).await) });
    }
    let mut news = vec![0; observed.len()];
    while let Some(looked) = looks.join_next().await {
        // A look that fails is a gap of a second; a proxy that died is found by `check_running`.
        let Ok((index, Ok(look))) = looked else { continue };
        if let (Some(proxy), Some(new)) = (observed.get_mut(index), news.get_mut(index)) {
            *new = proxy.add(look);
        }
    }
    news
}

/// Prints a line for the user.
pub(crate) fn say(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{text}").context("cannot write to standard output")
}

/// Prints why the program ends.
pub(crate) fn say_error(error: &anyhow::Error) {
    let told = writeln!(std::io::stderr(), "error: {error:#}");
    debug_assert!(told.is_ok(), "nobody can be told");
}
