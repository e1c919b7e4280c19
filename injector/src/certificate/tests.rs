//! Certificates over years, in no time.

use super::*;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::{ServerName, UnixTime};
use std::sync::Arc;

const DAY: Duration = Duration::from_hours(24);

fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_hours(500_000)
}

fn terms() -> Terms {
    Terms {
        names: vec!["tidegate-injector.tidegate.svc".to_owned(), "127.0.0.1".to_owned()],
        certificate: 90 * DAY,
        authority: 3650 * DAY,
    }
}

/// Whether a caller who trusts `authorities` accepts what is served, for each name.
fn accepted(authorities: &str, held: &Held, terms: &Terms, now: SystemTime) -> bool {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(authority.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let served = CertificateDer::from_pem_slice(held.chain.as_bytes()).unwrap();
    let now = UnixTime::since_unix_epoch(now.duration_since(SystemTime::UNIX_EPOCH).unwrap());
    terms.names.iter().all(|name| {
        let name = ServerName::try_from(name.as_str()).unwrap();
        verifier.verify_server_cert(&served, &[], &name, &[], now).is_ok()
    })
}

#[test]
fn what_is_made_is_accepted_for_its_names_and_its_time_alone() {
    let (terms, made) = (terms(), Held::made(&terms(), start()).unwrap());
    assert!(accepted(&made.authorities, &made, &terms, start()));
    assert!(accepted(&made.authorities, &made, &terms, start() + 89 * DAY));
    assert!(!accepted(&made.authorities, &made, &terms, start() + 91 * DAY));
    let other = Terms { names: vec!["other.tidegate.svc".to_owned()], ..terms };
    assert!(!accepted(&made.authorities, &made, &other, start()));
}

#[test]
fn a_third_of_its_life_before_its_end_a_certificate_is_due() {
    let (terms, made) = (terms(), Held::made(&terms(), start()).unwrap());
    let cases = [
        (0, Due::Nothing),
        (59, Due::Nothing),
        (60, Due::Certificate),
        (200, Due::Certificate),
        (2400, Due::Certificate),
        (2500, Due::Authority),
        (4000, Due::Authority),
    ];
    for (days, expected) in cases {
        assert_eq!(made.due(&terms, start() + days * DAY), expected, "after {days} days");
    }
    let renamed = Terms { names: vec!["more.tidegate.svc".to_owned()], ..terms };
    assert_eq!(made.due(&renamed, start()), Due::Certificate, "for a new name");
}

#[test]
fn in_thirty_years_no_caller_meets_a_certificate_that_it_cannot_check() {
    let terms = terms();
    let mut held = Held::made(&terms, start()).unwrap();
    let (mut renewals, mut authorities) = (0, 0);
    for day in (0..30 * 365).step_by(5) {
        let now = start() + day * DAY;
        // A caller that has not heard of this round yet.
        let known = held.authorities.clone();
        let due = held.due(&terms, now);
        if due != Due::Nothing {
            renewals += 1;
            authorities += u32::from(due == Due::Authority);
            assert_ne!(due, Due::Everything, "day {day}");
            held = held.renewed(due, &terms, now).unwrap();
            assert!(accepted(&known, &held, &terms, now), "day {day}, before the news: {due:?}");
        }
        if day % 30 == 0 {
            assert!(accepted(&held.authorities, &held, &terms, now), "day {day}");
        }
        assert!(blocks(&held.authorities).count() <= AUTHORITIES_MAX);
    }
    assert!(authorities >= 4 && renewals > 100, "{authorities} authorities, {renewals} renewals");
}

#[test]
fn what_cannot_be_read_is_made_anew() {
    let (terms, made) = (terms(), Held::made(&terms(), start()).unwrap());
    for broken in key::AUTHORITIES.split('|').chain([key::AUTHORITY_KEY, key::CHAIN, key::KEY]) {
        let held = Held::read(|name| {
            let entries = made.entries();
            Some(if name == broken { "junk".to_owned() } else { entries[name].to_owned() })
        });
        assert_eq!(held.unwrap().due(&terms, start()), Due::Everything, "{broken}");
        let held = Held::read(|name| (name != broken).then(|| made.entries()[name].to_owned()));
        assert_eq!(held, None, "{broken}");
    }
    let read = Held::read(|name| Some(made.entries()[name].to_owned()));
    assert_eq!(read.as_ref(), Some(&made));
    assert_eq!(format!("{made:?}"), "Held { .. }", "no key in a log");
}
