//! "Did you mean": the known name closest to a mistyped one.

/// Longest name worth comparing; a longer one is not a typo of any key.
const MAX_CHARS: usize = 64;

/// The key of the closest candidate, if any is close enough to be a guess worth making.
pub(super) fn pick(
    typed: &str,
    candidates: impl Iterator<Item = (&'static str, String)>,
) -> Option<&'static str> {
    if typed.is_empty() || typed.chars().count() > MAX_CHARS {
        return None;
    }
    let most = 1 + typed.chars().count() / 4;
    candidates
        .filter_map(|(key, name)| {
            // A beginning, or words of a longer name in order (`h100-80gb`), is a better
            // guess than a name with other letters.
            let cost = if name.starts_with(typed) {
                0
            } else if is_abbreviation(typed, &name) {
                1
            } else {
                let edits = distance(typed, &name);
                if edits > most {
                    return None;
                }
                1 + edits
            };
            Some((cost, key))
        })
        .min()
        .map(|(_, key)| key)
}

/// Whether the typed words are, in order, beginnings of words of the name.
fn is_abbreviation(typed: &str, name: &str) -> bool {
    let mut words = name.split('-');
    typed
        .split('-')
        .all(|part| part.len() > 1 && words.any(|word| word.starts_with(part)))
}

/// Insertions, deletions and replacements between two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn distances() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("l40s", "l40s"), 0);
        assert_eq!(distance("l40", "l40s"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
