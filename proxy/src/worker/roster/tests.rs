//! When a connection may rest.

use super::*;

/// What happens to a connection.
type Happens = fn(&Entry);

#[test]
fn only_what_has_nothing_to_remember_rests() {
    let cases: [(&str, Happens, bool); 9] = [
        ("an answered request", |_| (), true),
        ("HTTP/2", |entry| entry.speaks(Version::Http2), false),
        ("bytes of a header", Entry::received, false),
        ("a request", Entry::request_began, false),
        ("an answer that is not taken", Entry::cannot_write, false),
        ("a body under way", Entry::upload_began, false),
        ("a command that was not heard yet", |entry| entry.tell(Command::Drain), false),
        ("the end of our side", Entry::lingers, false),
        ("what is no HTTP", Entry::is_opaque, false),
    ];
    let roster = Roster::new(Patience::default(), Clock::start());
    for (what, happens, expected) in cases {
        let member = roster.join();
        member.entry.speaks(Version::Http1);
        member.entry.request_began();
        member.entry.request_ended();
        happens(&member.entry);
        assert_eq!(member.entry.may_rest(), expected, "{what}");
    }
}

#[test]
fn a_drain_leaves_connections_open_that_may_be_about_to_ask() {
    let at = |seconds: u64| Timestamp::from_nanos(seconds * 1_000_000_000);
    let roster = Roster::new(Patience::default(), Clock::start());
    let members = [(); 4].map(|()| roster.join());
    let [quiet, _silent, busy, tunnel] = &members;
    for member in [quiet, busy] {
        member.entry.speaks(Version::Http1);
    }
    busy.entry.request_began();
    tunnel.entry.is_opaque();
    let told = || members.each_ref().map(|member| member.entry.command(Waker::noop()));
    roster.sweep(at(10));
    roster.drain_idle(Duration::from_secs(5), at(14));
    assert_eq!(told(), [None; 4]);
    roster.drain_idle(Duration::from_secs(5), at(15));
    let expected = [Some(Command::Drain), Some(Command::Close), None, None];
    assert_eq!(told(), expected);
    assert_eq!((roster.open(), roster.seen()), (4, 4));
}
