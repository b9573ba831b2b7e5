//! The name a mistyped one was probably meant to be.

/// The closest of `names`, if it is close enough to be worth saying.
pub(crate) fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // What is longer than any name was not mistyped, and would only cost time.
    if wrong.len() > 100 {
        return None;
    }
    let allowed = (wrong.len() / 3).clamp(1, 8);
    names
        .map(|name| (distance(wrong, name), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Edits that lead from one text to the other, letter case aside.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<u8> = b.bytes().map(|c| c.to_ascii_lowercase()).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().map(|c| c.to_ascii_lowercase()).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replace = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_near_and_ignores_the_far() {
        let names = ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"];
        let find = |wrong| nearest(wrong, names.into_iter());
        assert_eq!(find("DCGM_FI_DEV_GPU_UTL"), Some("DCGM_FI_DEV_GPU_UTIL"));
        assert_eq!(find("dcgm_fi_dev_fb_used"), Some("DCGM_FI_DEV_FB_USED"));
        assert_eq!(find("temperature"), None);
        assert_eq!(find(&"x".repeat(100_000)), None);
    }
}
