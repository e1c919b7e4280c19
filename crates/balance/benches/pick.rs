//! Time of one pick and its answer at 3, 30 and 300 endpoints. `examples/pick_cost.rs` counts instructions instead.

use balance::balancer::{Balancer, Outcome};
use balance::config::Config;
use balance::endpoint::{EndpointKey, EndpointSpec, ZoneId};
use balance::time::Timestamp;
use criterion::{Criterion, criterion_group, criterion_main};

const NANOS_A_REQUEST: u64 = 1_000_000;

fn endpoints(count: u32) -> Vec<EndpointSpec> {
    let endpoint = |number: u32| EndpointSpec {
        key: EndpointKey(u64::from(number)),
        tier: u8::from(!number.is_multiple_of(3)),
        same_zone: number.is_multiple_of(3),
        same_region: true,
        zone: Some(ZoneId(number % 3)),
    };
    (0..count).map(endpoint).collect()
}

fn pick_and_answer(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pick_and_answer");
    for count in [3, 30, 300] {
        let mut balancer = Balancer::new(Config::default(), 1, Timestamp::ZERO);
        balancer.update(&endpoints(count), Timestamp::ZERO);
        let mut nanos = 0;
        group.bench_function(format!("{count}_endpoints"), |bencher| {
            bencher.iter(|| {
                nanos += NANOS_A_REQUEST;
                let now = Timestamp::from_nanos(nanos);
                if balancer.next_tick() <= now {
                    balancer.tick(now);
                }
                balancer.pick(now).map(|pick| {
                    balancer.answered(
                        pick.ticket,
                        Outcome::Success,
                        Timestamp::from_nanos(nanos + 900_000),
                    )
                })
            });
        });
    }
    group.finish();
}

criterion_group!(benches, pick_and_answer);
criterion_main!(benches);
