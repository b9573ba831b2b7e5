//! Which devices CUDA counts, and in which order: what the process sees of its node, narrowed by `CUDA_VISIBLE_DEVICES`.
//!
//! The rules are the real driver's. A list names devices by number or by (the beginning of) a UUID, in the order wanted, and ends
//! at the first entry that names none. A GPU in MIG mode is not a device of its own: a process gets one MIG device, the one the list
//! names, or the first one if there is no whole GPU.

use mirage_state::layout::{Instance, text};

/// A device before it has a number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    /// GPU index on the node.
    pub(crate) gpu: u32,
    /// UUID of the GPU.
    pub(crate) uuid: &'a str,
    /// In MIG mode.
    pub(crate) is_mig: bool,
    /// Its MIG devices this process sees.
    pub(crate) instances: &'a [Instance],
}

/// A device: a GPU, or a MIG device of it.
pub(crate) type Choice = (u32, Option<Instance>);

/// The devices in CUDA's order.
pub(crate) fn devices(candidates: &[Candidate<'_>], list: Option<&str>) -> Vec<Choice> {
    let everything = || -> Vec<Choice> {
        let whole = candidates.iter().filter(|candidate| !candidate.is_mig);
        let whole: Vec<Choice> = whole.map(|candidate| (candidate.gpu, None)).collect();
        if !whole.is_empty() {
            return whole;
        }
        let parts = candidates.iter().flat_map(first);
        parts.take(1).collect()
    };
    let Some(list) = list else {
        return everything();
    };
    let mut chosen: Vec<Choice> = Vec::new();
    for word in list.split(',') {
        let Some(choice) = pick(word.trim(), candidates) else {
            break;
        };
        if chosen.contains(&choice) {
            // Twice the same device is a mistake, and the real driver shows none.
            return Vec::new();
        }
        chosen.push(choice);
    }
    // One MIG device, and nothing beside it.
    if let Some(part) = chosen.iter().find(|(_, part)| part.is_some()) {
        return vec![*part];
    }
    chosen
}

/// The first MIG device of a GPU.
fn first(candidate: &Candidate<'_>) -> Option<Choice> {
    let part = candidate.instances.first().filter(|_| candidate.is_mig)?;
    Some((candidate.gpu, Some(*part)))
}

/// The device an entry names.
fn pick(word: &str, candidates: &[Candidate<'_>]) -> Option<Choice> {
    let whole_or_first = |candidate: &Candidate<'_>| match candidate.is_mig {
        false => Some((candidate.gpu, None)),
        true => first(candidate),
    };
    if word.starts_with("GPU-") {
        let mut fits = candidates.iter().filter(|c| begins(c.uuid, word));
        let only = fits.next()?;
        return fits.next().is_none().then(|| whole_or_first(only))?;
    }
    if word.starts_with("MIG-") {
        let parts = candidates
            .iter()
            .flat_map(|c| c.instances.iter().map(move |part| (c.gpu, Some(*part))));
        let mut fits = parts.filter(|(_, part)| part.is_some_and(|p| begins(text(&p.uuid), word)));
        let only = fits.next()?;
        return fits.next().is_none().then_some(only);
    }
    let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let number: usize = digits.then(|| word.parse().ok())??;
    candidates.get(number).and_then(whole_or_first)
}

fn begins(uuid: &str, beginning: &str) -> bool {
    uuid.len() >= beginning.len()
        && uuid.as_bytes()[..beginning.len()].eq_ignore_ascii_case(beginning.as_bytes())
}

#[cfg(test)]
mod tests {
    use mirage_state::layout::fixed;

    use super::*;

    fn part(gpu: u32, index: u32) -> Instance {
        Instance {
            uuid: fixed(&format!("MIG-{gpu}{index}-0000")),
            gpu,
            gi: 7 + index,
            index,
            ..Instance::default()
        }
    }

    fn whole<'a>(gpu: u32, uuid: &'a str) -> Candidate<'a> {
        Candidate {
            gpu,
            uuid,
            is_mig: false,
            instances: &[],
        }
    }

    fn numbers(choices: &[Choice]) -> Vec<u32> {
        choices.iter().map(|(gpu, _)| *gpu).collect()
    }

    #[test]
    fn a_list_orders_and_ends_at_the_first_mistake() {
        let all = [
            whole(0, "GPU-aa-1"),
            whole(3, "GPU-ab-2"),
            whole(5, "GPU-cc-3"),
        ];
        let seen = |list: Option<&str>| numbers(&devices(&all, list));
        assert_eq!(seen(None), [0, 3, 5]);
        assert_eq!(seen(Some("2,0")), [5, 0]);
        assert_eq!(seen(Some("1, GPU-CC")), [3, 5]);
        assert_eq!(seen(Some("1,9,0")), [3]);
        // A beginning that fits two names neither.
        assert_eq!(seen(Some("GPU-a")), [0_u32; 0]);
        for none in ["", "-1", "none", "1,1", "+1", "99999999999999999999"] {
            assert_eq!(seen(Some(none)), [0_u32; 0], "{none}");
        }
    }

    #[test]
    fn one_mig_device_at_most() {
        let parts = [part(0, 0), part(0, 1)];
        let split = Candidate {
            gpu: 0,
            uuid: "GPU-aa",
            is_mig: true,
            instances: &parts,
        };
        let empty = Candidate {
            gpu: 2,
            uuid: "GPU-cc",
            is_mig: true,
            instances: &[],
        };
        let only_split = [split, empty];
        let mixed = [split, whole(1, "GPU-bb"), empty];
        assert_eq!(devices(&only_split, None), [(0, Some(parts[0]))]);
        assert_eq!(devices(&mixed, None), [(1, None)]);
        assert_eq!(devices(&mixed, Some("MIG-01")), [(0, Some(parts[1]))]);
        assert_eq!(devices(&mixed, Some("1,MIG-01")), [(0, Some(parts[1]))]);
        assert_eq!(devices(&mixed, Some("0")), [(0, Some(parts[0]))]);
        assert_eq!(devices(&mixed, Some("2")), []);
    }
}
