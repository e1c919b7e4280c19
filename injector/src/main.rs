//! The injector of Tidegate as a program.

fn main() -> std::process::ExitCode {
    injector::cli::main()
}
