//! The definition in the chart is the one of the code.

#[path = "../examples/crd.rs"]
#[expect(dead_code, reason = "its `main` is the example's")]
mod crd;

#[test]
fn the_charts_definition_is_current() {
    let found = std::fs::read_to_string(crd::target()).unwrap_or_default();
    assert!(
        crd::generate().unwrap() == found,
        "the types or limits changed: run `cargo run -p controller --example crd`"
    );
}
