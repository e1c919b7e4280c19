//! `sim`: the balancing core in a simulated cluster. See `sim --help`.

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use serde::Serialize;
use sim::compare::{self, COLUMNS};
use sim::jobs::Results;
use sim::policy::PolicyKind;
use sim::random;
use sim::report::{self, Findings};
use sim::scenario::{BASES, Scenario};
use sim::time::SECOND;
use sim::verify::{self, Selection, Verdict};
use sim::world::Run;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs the balancing core of Tidegate in a simulated cluster of three zones, beside models of its peers.
///
/// Every run is decided by its scenario, its policy and its seed; the same run gives the same numbers.
#[derive(Debug, Parser)]
#[command(name = "sim", version)]
struct Cli {
    /// Threads to use; one for each core if not given.
    #[arg(long, global = true)]
    threads: Option<usize>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Checks every promise in every seed; exits 0 only if all hold.
    Verify(VerifyArgs),
    /// Sets the zone valve beside models of its peers, and marks what differs from what was expected.
    Compare {
        #[command(flatten)]
        select: SelectArgs,
        /// Writes the cells to this file as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Runs random scenarios; exits 0 only if little is lost against the best peer of each.
    Random(RandomArgs),
    /// Runs one scenario and prints what was measured as JSON.
    Run {
        /// Name of the scenario, as `ff.c30`; see `sim list`.
        scenario: String,
        /// Who decides; all policies of the comparison if not given.
        #[arg(long)]
        policy: Option<PolicyKind>,
        /// Seed of all chance.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Draws one run as SVG.
    Trace {
        /// Name of the scenario, as `ff.c30`; see `sim list`.
        scenario: String,
        /// Who decides.
        #[arg(long, default_value = "valve")]
        policy: PolicyKind,
        /// Seed of all chance.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Where the picture goes; standard output if not given.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Does all of the above and writes the result into a document, between its markers.
    Report {
        /// The document.
        #[arg(long, value_name = "FILE", default_value = "docs/benchmarks.md")]
        file: PathBuf,
        #[command(flatten)]
        select: SelectArgs,
        #[command(flatten)]
        random: RandomArgs,
    },
    /// Lists the bases and the scenarios that are checked.
    List,
}

#[derive(Debug, Args)]
struct VerifyArgs {
    #[command(flatten)]
    select: SelectArgs,
    /// Writes the verdicts to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Runs this many random scenarios instead (see `sim random`).
    #[arg(long, value_name = "COUNT")]
    random: Option<u32>,
    /// Seed of the random scenarios.
    #[arg(long, default_value_t = 777, requires = "random")]
    seed: u64,
}

#[derive(Debug, Args)]
struct SelectArgs {
    /// Seed 1 only, instead of seeds 1 to 6.
    #[arg(long)]
    quick: bool,
    /// Only scenarios whose name contains this.
    #[arg(long, value_name = "PATTERN")]
    scenario: Option<String>,
}

#[derive(Debug, Args)]
struct RandomArgs {
    /// How many random scenarios.
    #[arg(long, default_value_t = 72)]
    count: u32,
    /// Seed that decides them.
    #[arg(long, default_value_t = 777)]
    seed: u64,
    /// Writes what came out to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let Cli { threads, command } = Cli::parse();
    let mut results = Results::new(threads);
    let holds = match command {
        Command::Verify(args) => verify_or_random(args, &mut results)?,
        Command::Compare { select, json } => compare_peers(&select, json.as_deref(), &mut results)?,
        Command::Random(args) => contest(&args, &mut results)?,
        Command::Run { scenario, policy, seed } => run(&scenario, policy, seed)?,
        Command::Trace { scenario, policy, seed, output } => {
            trace((&scenario, policy, seed), output.as_deref())?
        }
        Command::Report { file, select, random } => {
            write_report(&file, (&select, &random), &mut results)?
        }
        Command::List => list()?,
    };
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn verify_or_random(args: VerifyArgs, results: &mut Results) -> Result<bool> {
    if let Some(count) = args.random {
        return contest(&RandomArgs { count, seed: args.seed, json: args.json }, results);
    }
    let verdicts = verify::verify(&args.select.selection(), results)?;
    write_json(args.json.as_deref(), &verdicts)?;
    print(&format!("{}\n{}\n", verify::table(&verdicts), verify::summary(&verdicts)))?;
    Ok(all_hold(&verdicts))
}

fn compare_peers(select: &SelectArgs, json: Option<&Path>, results: &mut Results) -> Result<bool> {
    let cells = compare::compare(&select.selection(), results)?;
    write_json(json, &cells)?;
    print(&format!("{}\n{}\n", compare::table(&cells), compare::summary(&cells)))?;
    Ok(true)
}

fn contest(args: &RandomArgs, results: &mut Results) -> Result<bool> {
    let outcome = random::contest((args.count, args.seed), results);
    write_json(args.json.as_deref(), &outcome)?;
    print(&format!(
        "{}\n{}\n",
        random::table(&outcome, outcome.contests.len()),
        random::summary(&outcome)
    ))?;
    Ok(outcome.holds())
}

fn run(name: &str, policy: Option<PolicyKind>, seed: u64) -> Result<bool> {
    let scenario = found(name)?;
    for policy in COLUMNS.into_iter().filter(|_| policy.is_none()).chain(policy) {
        let measured = Run { scenario: &scenario, policy, seed, sample_every: None }.measured();
        print(&format!("{} {}\n", policy.title(), serde_json::to_string(&measured)?))?;
    }
    Ok(true)
}

fn trace((name, policy, seed): (&str, PolicyKind, u64), output: Option<&Path>) -> Result<bool> {
    let scenario = found(name)?;
    let measured = Run { scenario: &scenario, policy, seed, sample_every: Some(SECOND) }.measured();
    let title = format!("{name}, {}, seed {seed}", policy.title());
    let svg = sim::trace::svg(&scenario, &measured, &title);
    match output {
        Some(path) => {
            fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))?;
        }
        None => print(&svg)?,
    }
    Ok(true)
}

fn write_report(
    file: &Path,
    args: (&SelectArgs, &RandomArgs),
    results: &mut Results,
) -> Result<bool> {
    let document =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let (select, RandomArgs { count, seed, .. }) = args;
    let selection = select.selection();
    let quick = if select.quick { " --quick" } else { "" };
    let findings = Findings {
        verdicts: verify::verify(&selection, results)?,
        cells: compare::compare(&selection, results)?,
        outcome: random::contest((*count, *seed), results),
        command: format!(
            "cargo run --release -p sim -- report{quick} --count {count} --seed {seed}"
        ),
    };
    fs::write(file, report::inserted(&document, &findings)?)
        .with_context(|| format!("cannot write {}", file.display()))?;
    let Findings { verdicts, cells, outcome, .. } = &findings;
    print(&format!(
        "{}\n{}\n{}\n",
        verify::summary(verdicts),
        compare::summary(cells),
        random::summary(outcome)
    ))?;
    Ok(all_hold(verdicts) && outcome.holds())
}

fn list() -> Result<bool> {
    let bases: Vec<&str> = BASES.iter().map(|base| base.name).collect();
    let scenarios: Vec<&str> = verify::scenarios().collect();
    print(&format!(
        "A scenario is FAULT.BASE, as slow10.c30; c30 if no base is named.\n\n\
         bases: {}\n\n\
         faults: steady ff sf hang slowN partP heavyz gslow18 gpart20 app5 gover two.ff uneven burst stepdown\n\
         \x20       scalein.0of4 scalein.1of4 trickle stream50 lpoll50; one. half. rem. before ff sf hang slowN partP: first server,\n\
         \x20       first two, zone 1; .cancel at the end: callers give up by themselves; .1h: an hour; random.SEED.INDEX\n\
         \x20       .still40 .stuck40 .jerky40: all processes at once, all servers at once, each process at a time of its own\n\
         \x20       stand still for 0.4 s once in ten seconds\n\n\
         checked: {}\n",
        bases.join(" "),
        scenarios.join(" ")
    ))?;
    Ok(true)
}

impl SelectArgs {
    fn selection(&self) -> Selection {
        Selection {
            seeds: if self.quick { vec![1] } else { (1..=6).collect() },
            pattern: self.scenario.clone(),
        }
    }
}

fn found(name: &str) -> Result<Scenario> {
    Scenario::named(name)
        .or_else(|| random::named(name))
        .with_context(|| format!("no scenario {name}: see `sim list`"))
}

fn all_hold(verdicts: &[Verdict]) -> bool {
    verdicts.iter().all(|verdict| verdict.holds)
}

fn write_json(file: Option<&Path>, value: &impl Serialize) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let text = serde_json::to_string_pretty(value)?;
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn print(text: &str) -> Result<()> {
    io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}
