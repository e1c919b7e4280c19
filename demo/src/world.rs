//! The processes of a run: backends, proxies, loads, and what can be done to them.

use std::fs::{File, TryLockError};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::priority::in_own_session;
use anyhow::Context as _;
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::arguments::RunArguments;
use crate::children::{Child, Keeper};
use crate::clock::{Clock, Deadline};
use crate::fault::{FAULTY_ZONE, Fault, Means};
use crate::fetch;
use crate::load::{self, CsvFile, Load};
use crate::namespaces::{Pod, SERVICE_ADDRESS};
use crate::policy::{Policy, Topology, ZONES};
use crate::ports;

/// Backends of each zone.
const BACKENDS_PER_ZONE: usize = 3;
/// From the start of a process to its first good answer, on a machine that is busy building.
const START_PATIENCE: Duration = Duration::from_secs(15);
/// For a control request; a fault must not come late without notice.
const CONTROL_PATIENCE: Duration = Duration::from_secs(2);

/// Everything that runs. Dropping it ends everything.
#[derive(Debug)]
pub(crate) struct World {
    /// First, so that it is gone before the processes that it would kill.
    #[expect(dead_code, reason = "held for its drop")]
    keeper: Keeper,
    backends: Vec<Backend>,
    pub(crate) proxies: Vec<Proxy>,
    folder: Folder,
    #[expect(dead_code, reason = "held for its drop")]
    lock: Lock,
    program: PathBuf,
    latency: String,
}

#[derive(Debug)]
struct Backend {
    name: String,
    zone: &'static str,
    address: SocketAddr,
    pod: Option<Pod>,
    /// None while it is crashed.
    process: Option<Child>,
}

/// Where a proxy and its callers are.
#[derive(Debug)]
struct Site {
    listen: SocketAddr,
    forward: SocketAddr,
    admin: SocketAddr,
    pod: Option<Pod>,
}

/// A proxy, for one zone under one policy.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) policy: Policy,
    pub(crate) zone: &'static str,
    /// Listener of the demo's service.
    pub(crate) listen: SocketAddr,
    /// Forward listener, which takes the service from `Host`.
    pub(crate) forward: SocketAddr,
    pub(crate) admin: SocketAddr,
    pod: Option<Pod>,
    topology: PathBuf,
    process: Child,
}

/// Where a run writes.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    /// For topology files, logs and the loads' records; emptied at the start of a run.
    run: PathBuf,
}

/// A running load.
#[derive(Debug)]
pub(crate) struct RunningLoad {
    pub(crate) policy: Policy,
    pub(crate) zone: &'static str,
    pub(crate) process: Child,
    pub(crate) csv: CsvFile,
}

impl Folder {
    /// Makes the folders, and leaves nothing there from an earlier run that could be taken for this one.
    pub(crate) fn prepare(report: &Path) -> anyhow::Result<Self> {
        let folder = Self { run: report.join("run") };
        for stale in ["report.html", "report.json"].map(|name| report.join(name)) {
            if stale.exists() {
                std::fs::remove_file(&stale)
                    .with_context(|| format!("cannot remove {}", stale.display()))?;
            }
        }
        if folder.run.exists() {
            let removed = std::fs::remove_dir_all(&folder.run);
            removed.with_context(|| format!("cannot empty {}", folder.run.display()))?;
        }
        let made = std::fs::create_dir_all(&folder.run);
        made.with_context(|| format!("cannot make {}", folder.run.display()))?;
        Ok(folder)
    }
}

/// The right to write to a report's folder.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "held for its drop")] File);

impl Lock {
    /// Takes it until it is dropped, or until this process ends in whatever way.
    pub(crate) fn take(report: &Path) -> anyhow::Result<Self> {
        let made = std::fs::create_dir_all(report);
        made.with_context(|| format!("cannot make {}", report.display()))?;
        let path = report.join("demo.lock");
        let opened =
            File::options().create(true).read(true).write(true).truncate(false).open(&path);
        let mut file = opened.with_context(|| format!("cannot write {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = std::fs::read_to_string(&path).unwrap_or_default();
                anyhow::bail!(
                    "another demo (process {}) writes to {}: end it, or name another folder by --report DIR",
                    holder.trim(),
                    report.display()
                );
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Self(file))
    }
}

/// The proxy's binary: the one that is named, or the one beside this program.
pub(crate) fn proxy_binary(named: Option<&Path>, program: &Path) -> anyhow::Result<PathBuf> {
    let binary = named.map_or_else(|| program.with_file_name("tidegate-proxy"), Path::to_owned);
    anyhow::ensure!(
        binary.is_file(),
        "no proxy at {}: `cargo demo` builds it first; or build it with `cargo build -p proxy`, or name one with --proxy PATH",
        binary.display()
    );
    Ok(binary)
}

impl World {
    /// Starts backends and proxies, and waits until all are ready.
    pub(crate) async fn start(arguments: &RunArguments) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let proxy = proxy_binary(arguments.proxy.as_deref(), &program)?;
        let lock = Lock::take(&arguments.report)?;
        let folder = Folder::prepare(&arguments.report)?;
        let policies = arguments.policies();
        let backend_count = ZONES.len() * BACKENDS_PER_ZONE;
        let mut free = ports::free(backend_count + 3 * ZONES.len() * policies.len())?.into_iter();
        let mut port = || free.next().context("too few free ports");
        let mut pods = 1..;
        let mut pod = || {
            let make = |number| Pod::make(number);
            arguments
                .network
                .namespaces
                .then(|| pods.next().context("too many pods").and_then(make))
                .transpose()
        };

        let mut backends = Vec::new();
        for zone in ZONES {
            for number in 1..=BACKENDS_PER_ZONE {
                let name = format!("backend-{zone}{number}");
                let (address, pod) = (port()?, pod()?);
                let address = pod.as_ref().map_or(address, Pod::application);
                backends.push(Backend { name, zone, address, pod, process: None });
            }
        }
        let latency = arguments.latency.to_string();
        for backend in &mut backends {
            backend.start(&program, &latency, &folder)?;
        }
        let endpoints: Vec<_> =
            backends.iter().map(|backend| (backend.address, backend.zone)).collect();
        let mut proxies = Vec::new();
        for (policy, zone) in policies.iter().flat_map(|policy| ZONES.map(|zone| (*policy, zone))) {
            let mut site = Site { listen: port()?, forward: port()?, admin: port()?, pod: pod()? };
            let command = match &site.pod {
                None => in_own_session(&program, &proxy),
                Some(pod) => {
                    site.listen = SERVICE_ADDRESS;
                    [site.forward, site.admin] = pod.proxy();
                    let mut command = in_own_session(&program, Path::new("ip"));
                    command.args(pod.inject(&proxy)?);
                    command
                }
            };
            proxies.push(Proxy::start(command, (policy, zone), site, (&endpoints, &folder))?);
        }
        let keeper = Keeper::over(proxies.iter().filter_map(|proxy| proxy.process.id()))?;
        let mut world = Self { keeper, backends, proxies, folder, lock, program, latency };
        world.until_ready().await?;
        Ok(world)
    }

    async fn until_ready(&mut self) -> anyhow::Result<()> {
        for backend in &mut self.backends {
            let process = backend.process.as_mut().context("backend is not started")?;
            until_ready(process, backend.address, "/_control").await?;
        }
        for proxy in &mut self.proxies {
            until_ready(&mut proxy.process, proxy.admin, "/ready").await?;
        }
        Ok(())
    }

    /// Which processes ended since the last question, and what each printed last.
    pub(crate) fn ended(&mut self) -> Vec<anyhow::Error> {
        let backends = self.backends.iter_mut().filter_map(|backend| backend.process.as_mut());
        let processes = backends.chain(self.proxies.iter_mut().map(|proxy| &mut proxy.process));
        processes.filter_map(Child::ended).collect()
    }

    /// An error that says which process died and why, if one did that should not have.
    pub(crate) fn check_running(&mut self) -> anyhow::Result<()> {
        let backends = self.backends.iter_mut().filter_map(|backend| backend.process.as_mut());
        let mut processes = backends.chain(self.proxies.iter_mut().map(|proxy| &mut proxy.process));
        processes.try_for_each(Child::check_running)
    }

    /// Makes the failing zone fail.
    pub(crate) async fn fail(&mut self, fault: Fault) -> anyhow::Result<()> {
        match fault.means() {
            Means::Control => self.control(&fault.control()).await,
            Means::Kill { .. } => {
                let faulty = self.backends.iter_mut().filter(|backend| backend.zone == FAULTY_ZONE);
                let processes: Vec<Child> =
                    faulty.filter_map(|backend| backend.process.take()).collect();
                for process in processes {
                    process.kill().await?;
                }
                Ok(())
            }
        }
    }

    /// Takes the failing zone's endpoints out of discovery.
    pub(crate) fn leave_discovery(&self) -> anyhow::Result<()> {
        self.write_topologies(|backend| backend.zone != FAULTY_ZONE)
    }

    /// Heals the failing zone.
    pub(crate) async fn heal(&mut self, fault: Fault) -> anyhow::Result<()> {
        let Means::Kill { leave_discovery } = fault.means() else {
            return self.control("reset").await;
        };
        let crashed =
            || |backend: &&mut Backend| backend.process.is_none() || backend.zone == FAULTY_ZONE;
        for backend in self.backends.iter_mut().filter(crashed()) {
            backend.start(&self.program, &self.latency, &self.folder)?;
        }
        for backend in self.backends.iter_mut().filter(crashed()) {
            if let Some(process) = backend.process.as_mut() {
                until_ready(process, backend.address, "/_control").await?;
            }
        }
        if leave_discovery { self.write_topologies(|_| true) } else { Ok(()) }
    }

    async fn control(&self, query: &str) -> anyhow::Result<()> {
        let mut requests = JoinSet::new();
        for backend in self.backends.iter().filter(|backend| backend.zone == FAULTY_ZONE) {
            let (address, path) = (backend.address, format!("/_control?{query}"));
            requests.spawn(async move { fetch::post(address, &path, CONTROL_PATIENCE).await });
        }
        while let Some(answer) = requests.join_next().await {
            let answer = answer.context("a control request panicked")??;
            anyhow::ensure!(answer.status == 200, "a backend refused {query}: {}", answer.body);
        }
        Ok(())
    }

    fn write_topologies(&self, keep: impl Fn(&&Backend) -> bool) -> anyhow::Result<()> {
        let kept = self.backends.iter().filter(keep);
        let endpoints: Vec<_> = kept.map(|backend| (backend.address, backend.zone)).collect();
        self.proxies.iter().try_for_each(|proxy| proxy.write_topology(&endpoints))
    }

    /// Starts a load on every proxy, `clock`'s origin being their start.
    pub(crate) async fn start_loads(
        &self,
        arguments: &RunArguments,
        clock: Clock,
        seconds: u64,
        record: bool,
    ) -> anyhow::Result<Vec<RunningLoad>> {
        let mut loads = Vec::new();
        // The loads' schedules are laid between one another, so that requests do not come in bursts of six.
        let apart =
            Duration::from_secs(1) / arguments.rate / u32::try_from(self.proxies.len().max(1))?;
        let mut start = clock.origin_unix();
        if arguments.oha.is_some() {
            clock.reach(Duration::ZERO).await; // a binary starts when it is started
        }
        for proxy in &self.proxies {
            let name = format!("load-{}-{}", proxy.policy, proxy.zone);
            let csv = self.folder.run.join(format!("{name}.csv"));
            let url = format!("http://{}/", proxy.listen);
            let csv_wanted = record.then_some(csv.as_path());
            let (rate, connections) = (arguments.rate, arguments.connections);
            let load = Load { url: &url, rate, connections, seconds, csv: csv_wanted };
            let program = arguments.oha.as_ref().unwrap_or(&self.program);
            let mut command = command_in(proxy.pod.as_ref(), &self.program, program);
            command.args(match &arguments.oha {
                Some(_) => load.oha_arguments(),
                None => load::own_arguments(&load, start),
            });
            let process = Child::start(&name, &mut command, &self.folder.run)?;
            loads.push(RunningLoad {
                policy: proxy.policy,
                zone: proxy.zone,
                process,
                csv: CsvFile(csv),
            });
            start += apart;
        }
        Ok(loads)
    }

    /// This program's own file.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Where the backends listen, with their zones.
    pub(crate) fn backends(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        self.backends.iter().map(|backend| (backend.zone, backend.address))
    }
}

impl Backend {
    fn start(&mut self, program: &Path, latency: &str, folder: &Folder) -> anyhow::Result<()> {
        let mut command = command_in(self.pod.as_ref(), program, program);
        command.args([
            "backend",
            "--exit-with-stdin",
            "--zone",
            self.zone,
            "--latency",
            latency,
            "--listen",
        ]);
        command.arg(self.address.to_string());
        self.process = Some(Child::start(&self.name, &mut command, &folder.run)?);
        Ok(())
    }
}

/// The endpoints that a proxy is told of, and where the run writes.
type Surroundings<'a> = (&'a [(SocketAddr, &'a str)], &'a Folder);

impl Proxy {
    fn start(
        mut command: Command,
        (policy, zone): (Policy, &'static str),
        site: Site,
        (endpoints, folder): Surroundings<'_>,
    ) -> anyhow::Result<Self> {
        let Site { listen, forward, admin, pod } = site;
        let name = format!("proxy-{policy}-{zone}");
        let topology = folder.run.join(format!("{name}.toml"));
        let redirected = pod.is_some();
        let toml = Topology { policy, zone, listen, forward, redirected, endpoints }.toml();
        write_atomically(&topology, &toml)?;
        command.arg("--topology").arg(&topology).arg("--admin").arg(admin.to_string());
        // One thread each: there are six, and the machine may have two cores.
        command.args(["--workers", "1"]);
        let process = Child::start(&name, &mut command, &folder.run)?;
        Ok(Self { policy, zone, listen, forward, admin, pod, topology, process })
    }

    fn write_topology(&self, endpoints: &[(SocketAddr, &str)]) -> anyhow::Result<()> {
        let Self { policy, zone, listen, forward, .. } = *self;
        let redirected = self.pod.is_some();
        write_atomically(
            &self.topology,
            &Topology { policy, zone, listen, forward, redirected, endpoints }.toml(),
        )
    }
}

/// A program's command, in a pod or on this machine. `own` is this program.
fn command_in(pod: Option<&Pod>, own: &Path, program: &Path) -> Command {
    let Some(pod) = pod else { return in_own_session(own, program) };
    let mut command = in_own_session(own, Path::new("ip"));
    command.args(pod.arguments(program));
    command
}

/// A reader sees the old text or the new one, never a part.
pub(crate) fn write_atomically(path: &Path, text: &str) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, text).with_context(|| format!("cannot write {}", new.display()))?;
    std::fs::rename(&new, path).with_context(|| format!("cannot replace {}", path.display()))
}

async fn until_ready(process: &mut Child, address: SocketAddr, path: &str) -> anyhow::Result<()> {
    let deadline = Deadline::within(START_PATIENCE);
    loop {
        process.check_running()?;
        let why = match fetch::get(address, path, CONTROL_PATIENCE).await {
            Ok(answer) if answer.status == 200 => return Ok(()),
            Ok(answer) => format!("status {}: {}", answer.status, answer.body.trim()),
            Err(error) => error.to_string(),
        };
        let (name, limit) = (process.name(), START_PATIENCE);
        anyhow::ensure!(
            !deadline.is_over(),
            "{name} was not ready within {limit:?} ({why}); see {}",
            process.log()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_proxy_says_how_to_get_one() {
        let error = proxy_binary(None, Path::new("/nowhere/demo")).unwrap_err().to_string();
        assert!(
            error.contains("/nowhere/tidegate-proxy") && error.contains("cargo demo"),
            "{error}"
        );
        let error = proxy_binary(Some(Path::new("/elsewhere/proxy")), Path::new("/nowhere/demo"))
            .unwrap_err();
        assert!(error.to_string().contains("/elsewhere/proxy"), "{error}");
    }

    #[test]
    fn a_second_demo_in_a_folder_is_told_of_the_first() {
        let report =
            std::env::temp_dir().join(format!("tidegate-demo-{}-lock", std::process::id()));
        let first = Lock::take(&report).unwrap();
        let error = Lock::take(&report).unwrap_err().to_string();
        let own = format!("another demo (process {})", std::process::id());
        assert!(error.starts_with(&own) && error.contains("--report DIR"), "{error}");
        drop(first);
        let again = Lock::take(&report);
        std::fs::remove_dir_all(&report).unwrap();
        again.unwrap();
    }

    #[test]
    fn a_new_run_removes_what_an_old_one_left() {
        let report =
            std::env::temp_dir().join(format!("tidegate-demo-{}-folder", std::process::id()));
        std::fs::create_dir_all(report.join("run")).unwrap();
        for file in ["report.json", "run/load-pinned-a.csv", "kept.txt"] {
            std::fs::write(report.join(file), "old").unwrap();
        }
        Folder::prepare(&report).unwrap();
        let exists = ["report.json", "run/load-pinned-a.csv", "kept.txt", "run"]
            .map(|name| report.join(name).exists());
        std::fs::remove_dir_all(&report).unwrap();
        assert_eq!(exists, [false, false, true, true]);
    }
}
