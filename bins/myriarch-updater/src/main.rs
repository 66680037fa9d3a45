//! Entry point: everything is in the library, so that tests and other binaries can compose it.

use std::process::ExitCode;

fn main() -> ExitCode {
    myriarch_updater::main()
}
