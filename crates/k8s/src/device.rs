//! What device ids mean: under which keys a device of an answer is found again.
//!
//! The rules and their order are dcgm-exporter's, so that what it would label is labelled, and what it would
//! miss is missed. A key is text; the metric side asks with a GPU's UUID, its device name (`nvidia0`) or, for a
//! MIG instance, `<gpu>-<GPU instance id>`.

/// The keys of one device id, and its share when several containers may have the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// Keys it is found under.
    pub keys: Vec<String>,
    /// What tells one share from another: the text after `::` or `/vgpu`.
    pub share: Option<String>,
}

/// Reads a device id.
///
/// A MIG UUID stays as it is: only the node knows which instance has it.
pub fn keys(id: &str) -> Keys {
    let mut keys = Vec::with_capacity(2);
    let mut share = None;
    if let Some(rest) = id.strip_prefix("MIG-") {
        let (bare, replica) = split(rest, "::");
        share = replica;
        keys.push(format!("MIG-{bare}"));
        if let Some(key) = old_mig(bare) {
            keys.push(key);
        }
        keys.push(bare.to_owned());
    } else if let Some((gpu, gi, vgpu)) = gke_mig(id) {
        share = vgpu;
        keys.push(instance_key(gpu, gi));
    } else if id.contains("/vgpu") {
        let (bare, part) = split(id, "/vgpu");
        share = part;
        keys.push(bare.to_owned());
    } else if id.contains("::") {
        let (bare, replica) = split(id, "::");
        share = replica;
        keys.push(bare.to_owned());
    }
    if !keys.iter().any(|key| key == id) {
        keys.push(id.to_owned());
    }
    Keys { keys, share }
}

/// The key of a MIG instance on a node.
pub fn instance_key(gpu: u32, gi: u32) -> String {
    format!("{gpu}-{gi}")
}

/// The key of a device that is known by its minor number.
pub fn minor_key(minor: u32) -> String {
    format!("minor:{minor}")
}

/// The key of a device of a resource claim.
pub fn claim_key(pool: &str, device: &str) -> String {
    format!("dra:{pool}/{device}")
}

/// Whether a key is of a resource claim. A plugin's id that looks like one costs a look and finds nothing.
pub(crate) fn is_claim_key(key: &str) -> bool {
    key.starts_with("dra:")
}

fn split<'a>(text: &'a str, mark: &str) -> (&'a str, Option<String>) {
    match text.split_once(mark) {
        Some((bare, rest)) => (bare, Some(rest.to_owned())),
        None => (text, None),
    }
}

/// `nvidia0/gi1` and `nvidia0/gi1/vgpu2`.
fn gke_mig(id: &str) -> Option<(u32, u32, Option<String>)> {
    let (gpu, rest) = id.strip_prefix("nvidia")?.split_once("/gi")?;
    let (gi, vgpu) = split(rest, "/vgpu");
    Some((number(gpu)?, number(gi)?, vgpu))
}

/// `MIG-GPU-<uuid>/<gi>/<ci>`, the name of an instance before drivers gave it a UUID of its own.
fn old_mig(bare: &str) -> Option<String> {
    let (uuid, ids) = bare.split_once('/')?;
    let (gi, ci) = ids.split_once('/')?;
    let gi = number(gi)?;
    number(ci)?;
    uuid.starts_with("GPU-").then(|| old_mig_key(uuid, gi))
}

/// The key of an instance named in the old way.
pub(crate) fn old_mig_key(uuid: &str, gi: u32) -> String {
    format!("{uuid}/{gi}")
}

/// Digits alone, as `strconv` and our own minors want them; no sign, no blanks.
pub(crate) fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(id: &str) -> (Vec<String>, Option<String>) {
        let Keys { keys, share } = keys(id);
        (keys, share)
    }

    fn strings(list: &[&str]) -> Vec<String> {
        list.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn ids_give_the_keys_of_the_real_exporter() {
        for (id, keys, share) in [
            ("GPU-aa", &["GPU-aa"][..], None),
            ("GPU-aa::3", &["GPU-aa", "GPU-aa::3"], Some("3")),
            ("nvidia2", &["nvidia2"], None),
            ("nvidia2/vgpu1", &["nvidia2", "nvidia2/vgpu1"], Some("1")),
            ("nvidia0/gi1", &["0-1", "nvidia0/gi1"], None),
            (
                "nvidia0/gi1/vgpu2",
                &["0-1", "nvidia0/gi1/vgpu2"],
                Some("2"),
            ),
            ("MIG-bb", &["MIG-bb", "bb"], None),
            ("MIG-bb::1", &["MIG-bb", "bb", "MIG-bb::1"], Some("1")),
            (
                "MIG-GPU-aa/7/0",
                &["MIG-GPU-aa/7/0", "GPU-aa/7", "GPU-aa/7/0"],
                None,
            ),
            ("0", &["0"], None),
            ("0:1", &["0:1"], None),
        ] {
            let (got, part) = read(id);
            assert_eq!(got, strings(keys), "{id}");
            assert_eq!(part.as_deref(), share, "{id}");
        }
    }

    #[test]
    fn odd_ids_are_only_themselves() {
        for id in [
            "",
            "nvidia",
            "nvidia/gi",
            "nvidiax/gi1",
            "nvidia0/gi-1",
            "GPU",
        ] {
            assert_eq!(read(id).0, strings(&[id]), "{id}");
        }
        // Too big for a number, so not an instance of that form.
        assert_eq!(read("nvidia0/gi99999999999").0.len(), 1);
    }
}
