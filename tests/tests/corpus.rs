//! What the fuzz targets have found worth keeping, run once each.

use std::fs;
use std::path::Path;
use tests::fuzz::TARGETS;

#[test]
fn every_input_of_the_corpus_keeps_its_properties() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/fuzz/corpus");
    for (name, target) in TARGETS {
        let mut count = 0;
        for file in fs::read_dir(corpus.join(name)).unwrap() {
            let path = file.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            let run = std::panic::catch_unwind(|| target(&bytes));
            assert!(run.is_ok(), "{}", path.display());
            count += 1;
        }
        println!("{name}: {count} inputs");
        assert!(count > 0, "{name} has no corpus");
    }
}
