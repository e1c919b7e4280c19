//! The faults.

use crate::RATE;
use crate::load::{Load, Plan, Report};
use crate::silence::Silence;
use crate::world::{ALL, LOCAL, World};
use std::io::Write as _;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

const ONE_SILENT: &str = "DROP of one local endpoint";
const ZONE_SILENT: &str = "DROP of the local zone";

/// Undisturbed load before the fault.
const BEFORE: Duration = Duration::from_secs(5);

/// Something that goes wrong.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    /// What is put before the proxy's command.
    wrapper: &'static [&'static str],
    arguments: &'static [&'static str],
    strike: fn(&mut World) -> Vec<TcpStream>,
}

const fn fault(name: &'static str, strike: fn(&mut World) -> Vec<TcpStream>) -> Fault {
    Fault { name, wrapper: &[], arguments: &[], strike }
}

/// All of them.
pub(crate) fn all() -> Vec<Fault> {
    let mut all = processes();
    all.extend(packets());
    all.extend(answers());
    all.push(clock());
    all.extend(scarcity());
    all
}

fn processes() -> Vec<Fault> {
    vec![
        fault("nothing", |_| Vec::new()),
        fault("kill -9 of one local endpoint", |world| {
            world.endpoints[0].signal("KILL");
            Vec::new()
        }),
        fault("kill -9 of all local endpoints", |world| {
            local(world, |endpoint| endpoint.signal("KILL"))
        }),
        fault("SIGSTOP of one local endpoint", |world| {
            world.endpoints[0].signal("STOP");
            Vec::new()
        }),
        fault("SIGSTOP of all local endpoints", |world| {
            local(world, |endpoint| endpoint.signal("STOP"))
        }),
    ]
}

fn packets() -> Vec<Fault> {
    vec![
        fault(ONE_SILENT, |world| {
            iptables(world, 0, &["-j", "DROP"]);
            Vec::new()
        }),
        fault(ZONE_SILENT, |world| {
            for number in LOCAL {
                iptables(world, number, &["-j", "DROP"]);
            }
            Vec::new()
        }),
        fault("REJECT of one local endpoint", |world| {
            iptables(world, 0, &["-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset"]);
            Vec::new()
        }),
        fault("10 % of packets to the local zone lost", |world| {
            for number in LOCAL {
                let lose =
                    ["-m", "statistic", "--mode", "random", "--probability", "0.1", "-j", "DROP"];
                iptables(world, number, &lose);
            }
            Vec::new()
        }),
    ]
}

fn answers() -> Vec<Fault> {
    vec![
        fault("25 % errors in the local zone", |world| {
            local(world, |endpoint| endpoint.mode("errors/25"))
        }),
        fault("50 % errors in the local zone", |world| {
            local(world, |endpoint| endpoint.mode("errors/50"))
        }),
        fault("75 % errors in the local zone", |world| {
            local(world, |endpoint| endpoint.mode("errors/75"))
        }),
        fault("100 % errors in the local zone", |world| {
            local(world, |endpoint| endpoint.mode("errors/100"))
        }),
        fault("answers of one local endpoint cut short", |world| {
            world.endpoints[0].mode("truncate");
            Vec::new()
        }),
        fault("answers of the local zone cut short", |world| {
            local(world, |endpoint| endpoint.mode("truncate"))
        }),
        fault("answers of one local endpoint reset in the middle", |world| {
            world.endpoints[0].mode("reset");
            Vec::new()
        }),
        fault("400 ms more in the local zone", |world| {
            local(world, |endpoint| endpoint.mode("delay/400"))
        }),
        fault("slow start: one local endpoint again, 300 ms at first", |world| {
            world.endpoints[0].restart();
            world.endpoints[0].mode("delay/300");
            let address = world.endpoints[0].address;
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_secs(8));
                if let Ok(mut stream) = TcpStream::connect(address) {
                    drop(stream.write_all(b"GET /_mode/delay/0 HTTP/1.1\r\n\r\n"));
                }
            });
            Vec::new()
        }),
    ]
}

fn scarcity() -> Vec<Fault> {
    vec![
        Fault {
            wrapper: &["sh", "-c", "ulimit -n 512; exec \"$@\"", "sh"],
            arguments: &["--max-connections", "100000"],
            ..fault("descriptors used up by 600 callers that say nothing", |world| {
                (0..600).filter_map(|_| TcpStream::connect(world.target).ok()).collect()
            })
        },
        Fault {
            wrapper: &["sh", "-c", MEMORY, "sh"],
            ..fault("64 MiB of memory and 2,000 large uploads", |world| {
                let request = b"POST / HTTP/1.1\r\nHost: chaos\r\nContent-Length: 10000000\r\n\r\n";
                let mut callers: Vec<_> =
                    (0..2000).filter_map(|_| TcpStream::connect(world.target).ok()).collect();
                let body = vec![b'x'; 200_000];
                for caller in &mut callers {
                    drop(caller.set_nonblocking(true));
                    drop(caller.write(request));
                    drop(caller.write(&body));
                }
                callers
            })
        },
    ]
}

const MEMORY: &str = "d=/sys/fs/cgroup/memory/tidegate-chaos; mkdir -p $d; echo 64M > $d/memory.limit_in_bytes; echo $$ > $d/cgroup.procs; exec \"$@\"";

/// The wall clock two days ahead, and then two days behind: libfaketime reads the file.
fn clock() -> Fault {
    Fault {
        wrapper: &[
            "env",
            "LD_PRELOAD=/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
            "FAKETIME_TIMESTAMP_FILE=/tmp/tidegate-chaos-clock",
            "FAKETIME_NO_CACHE=1",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
        ],
        ..fault("wall clock two days ahead, then two days behind", |_| {
            std::fs::write("/tmp/tidegate-chaos-clock", "+2d\n").unwrap();
            std::thread::spawn(|| {
                std::thread::sleep(Duration::from_secs(6));
                drop(std::fs::write("/tmp/tidegate-chaos-clock", "-2d\n"));
            });
            Vec::new()
        })
    }
}

fn local(world: &World, act: impl Fn(&crate::world::Endpoint)) -> Vec<TcpStream> {
    for number in LOCAL {
        act(&world.endpoints[number]);
    }
    Vec::new()
}

/// Packets to an endpoint, by a rule of this network namespace.
fn iptables(world: &World, number: usize, rule: &[&str]) {
    assert!(number < ALL);
    let address = world.endpoints[number].address.ip().to_string();
    let status =
        Command::new("iptables").args(["-w", "-A", "INPUT", "-d", &address]).args(rule).status();
    assert!(status.unwrap().success(), "iptables {rule:?}");
}

fn flush() {
    assert!(Command::new("iptables").args(["-w", "-F"]).status().unwrap().success());
}

/// Runs a fault under load, and looks at the proxy afterwards.
pub(crate) fn run(fault: &Fault, time: Duration) -> Report {
    std::fs::write("/tmp/tidegate-chaos-clock", "+0\n").unwrap();
    flush();
    let mut world = World::start(fault.wrapper, fault.arguments);
    let (target, time_in_all) = (world.target, time + BEFORE);
    let load = Load::start(Plan { target, time: time_in_all, rate: RATE, lenient: true });
    std::thread::sleep(BEFORE.saturating_sub(load.elapsed()));
    let before = (world.proxy.process.resident_kib(), world.descriptors());
    let onset = load.elapsed();
    let held = (fault.strike)(&mut world);
    let silent: &[usize] = match fault.name {
        ONE_SILENT => &LOCAL[..1],
        ZONE_SILENT => &LOCAL,
        _ => &[],
    };
    let silence = (!silent.is_empty()).then(|| Silence::watch(&world, silent, &load, onset));
    // What callers hold goes when half of the time is over, so that the recovery is seen too.
    std::thread::sleep((onset + time / 2).saturating_sub(load.elapsed()));
    drop(held);
    let mut report = load.report(onset);
    report.remark = silence.map(|silence| silence.remark(&world));
    assert!(
        world.proxy.process.check_running().is_none(),
        "the proxy ended: {}",
        world.proxy.process.log()
    );
    report.resident_kib = (before.0, world.proxy.process.resident_kib());
    report.descriptors = (before.1, world.descriptors());
    flush();
    for endpoint in &world.endpoints {
        endpoint.signal("CONT");
    }
    report
}
