//! The names by which releases call operating systems and architectures.
//!
//! They are Go's, since the programs are built by its tools; only 32-bit ARM is named with its generation.

/// The operating system of every release this program can run.
pub(crate) const LINUX: &str = "linux";

/// This machine's architecture as releases name it: `amd64`, `arm64`, `armv7`, `386`, `ppc64le`, `s390x`,
/// `riscv64`; another one by Rust's name for it.
pub const fn host_arch() -> &'static str {
    release_arch(std::env::consts::ARCH, cfg!(target_endian = "little"))
}

const fn release_arch(rust: &'static str, little_endian: bool) -> &'static str {
    match (rust.as_bytes(), little_endian) {
        (b"x86_64", _) => "amd64",
        (b"aarch64", _) => "arm64",
        (b"arm", _) => "armv7",
        (b"x86", _) => "386",
        (b"powerpc64", true) => "ppc64le",
        (b"powerpc64", false) => "ppc64",
        _ => rust,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_have_the_names_of_the_releases() {
        for (rust, little_endian, expected) in [
            ("x86_64", true, "amd64"),
            ("aarch64", true, "arm64"),
            ("arm", true, "armv7"),
            ("x86", true, "386"),
            ("powerpc64", true, "ppc64le"),
            ("powerpc64", false, "ppc64"),
            ("s390x", false, "s390x"),
            ("riscv64", true, "riscv64"),
        ] {
            assert_eq!(release_arch(rust, little_endian), expected);
        }
    }
}
