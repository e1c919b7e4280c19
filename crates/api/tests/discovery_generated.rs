//! The checked-in code of the discovery protocol is what its description says.

#[path = "../examples/generate_discovery.rs"]
#[expect(dead_code, reason = "its `main` is the example's")]
mod generate_discovery;

#[test]
fn the_generated_code_is_current() {
    let wanted = generate_discovery::generate().unwrap();
    let found = std::fs::read_to_string(generate_discovery::target()).unwrap();
    assert!(
        wanted == found,
        "discovery.proto changed: run `cargo run -p api --example generate_discovery`"
    );
}
