//! What NVML's numbers are called in reports and columns.

/// Drivers from which on a setting only reads as deprecated.
pub(crate) const DISPLAY_MODE_GONE: u32 = 575;
/// The same of whether a reset is due.
pub(crate) const RESET_STATUS_DEPRECATED: u32 = 570;
/// The same of the application clocks.
pub(crate) const APPLICATION_CLOCKS_GONE: u32 = 590;
/// How such a setting reads.
pub(crate) const DEPRECATED: &str = "Requested functionality has been deprecated";

/// Compute modes.
pub(crate) const COMPUTE_MODES: [&str; 4] = [
    "Default",
    "Exclusive_Thread",
    "Prohibited",
    "Exclusive_Process",
];

/// Ways of translating addresses.
pub(crate) const ADDRESSING_MODES: [&str; 3] = ["None", "HMM", "ATS"];

/// How far joining a fabric has come.
pub(crate) const FABRIC_STATES: [&str; 4] = ["N/A", "Not Started", "In Progress", "Completed"];

/// The fabric's health in one word.
pub(crate) const FABRIC_HEALTH: [&str; 4] = ["N/A", "Healthy", "Unhealthy", "Limited Capacity"];

/// How the GPUs of a rack are connected.
pub(crate) const PEER_TYPES: [&str; 2] = ["Direct Connected", "Switch Connected"];

/// What brings a GPU back to health.
pub(crate) const RECOVERY_ACTIONS: [&str; 5] =
    ["None", "Reset", "Reboot", "Drain P2P", "Drain and Reset"];

/// Virtualisation modes.
pub(super) const VIRTUALIZATION: [&str; 5] =
    ["None", "Pass-Through", "VGPU", "Host VGPU", "Host VSGA"];

/// The name of an architecture.
pub(super) fn architecture(number: u32) -> &'static str {
    match number {
        2 => "Kepler",
        3 => "Maxwell",
        4 => "Pascal",
        5 => "Volta",
        6 => "Turing",
        7 => "Ampere",
        8 => "Ada Lovelace",
        9 => "Hopper",
        10 => "Blackwell",
        13 => "Rubin",
        _ => "Unknown",
    }
}

/// The name of a brand.
pub(super) fn brand(number: u32) -> &'static str {
    match number {
        1 => "Quadro",
        2 => "Tesla",
        3 => "NVS",
        4 => "GRID",
        5 => "GeForce",
        6 => "Titan",
        12 => "Quadro RTX",
        13 => "NVIDIA RTX",
        14 => "NVIDIA",
        15 => "GeForce RTX",
        16 => "Titan RTX",
        _ => "Unknown",
    }
}

/// Sixteen bytes as a UUID.
pub(crate) fn fabric_uuid(bytes: &[u8; 16]) -> String {
    let mut text = String::new();
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_its_dashes() {
        let uuid = fabric_uuid(&[0xab; 16]);
        assert_eq!(uuid, "abababab-abab-abab-abab-abababababab");
    }
}
