//! The units that ship with the updater, as they stand in `systemd/`.

/// A unit's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitFile {
    /// Its name, a template: the instance is the service's name.
    pub name: &'static str,
    /// What it says.
    pub text: &'static str,
}

/// `run`, for as long as the machine is up.
pub const UPDATER: UnitFile = UnitFile {
    name: "myriarch-updater@.service",
    text: include_str!("../systemd/myriarch-updater@.service"),
};

/// `recover`, which the program's unit names in its `OnFailure=`.
pub const RECOVER: UnitFile = UnitFile {
    name: "myriarch-recover@.service",
    text: include_str!("../systemd/myriarch-recover@.service"),
};

/// `recover --before-start`, which the program's unit is ordered behind.
pub const BOOT: UnitFile =
    UnitFile { name: "myriarch-boot@.service", text: include_str!("../systemd/myriarch-boot@.service") };

/// All of them.
pub const ALL: [UnitFile; 3] = [UPDATER, RECOVER, BOOT];
