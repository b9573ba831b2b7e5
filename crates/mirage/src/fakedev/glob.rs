//! File names by pattern, as Go's `filepath.Glob` finds them: `*`, `?`, `[a-z]`, `[^a-z]` and a
//! backslash, none of which matches a slash. What is found comes in order.

use std::path::{Path, PathBuf};

/// The files that match; an unreadable folder has none.
pub(super) fn find(pattern: &str) -> Vec<PathBuf> {
    let start = if pattern.starts_with('/') { "/" } else { "" };
    let mut found = vec![PathBuf::from(start)];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        found = found
            .iter()
            .flat_map(|folder| matching(folder, part))
            .collect();
    }
    found.retain(|path| !path.as_os_str().is_empty());
    found.sort();
    found
}

fn matching(folder: &Path, part: &str) -> Vec<PathBuf> {
    if !part.contains(['*', '?', '[', '\\']) {
        let path = folder.join(part);
        // Device files may be links to what is not there.
        return path
            .symlink_metadata()
            .map_or_else(|_| Vec::new(), |_| vec![path]);
    }
    let listed = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let pattern: Vec<char> = part.chars().collect();
    let Ok(entries) = listed.read_dir() else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| matches(&pattern, &name.chars().collect::<Vec<_>>()))
        .map(|name| folder.join(name))
        .collect()
}

/// Whether a whole name matches. Each `*` is retried from one place on at most, so the time is
/// that of the two lengths multiplied.
fn matches(pattern: &[char], name: &[char]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at) == Some(&'*') {
            retry = Some((at, read));
            at += 1;
            continue;
        }
        if read == name.len() {
            if at == pattern.len() {
                return true;
            }
        } else if let Some(width) = one(&pattern[at..], name[read]) {
            at += width;
            read += 1;
            continue;
        }
        match retry {
            Some((star, from)) if from < name.len() => {
                retry = Some((star, from + 1));
                at = star + 1;
                read = from + 1;
            }
            _ => return false,
        }
    }
}

/// How much of the pattern stands for this one character, if it does.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern.first()? {
        '?' => Some(1),
        '\\' => (*pattern.get(1)? == c).then_some(2),
        '[' => {
            let end = 2 + pattern.iter().skip(2).position(|c| *c == ']')?;
            let (negated, from) = match pattern[1] {
                '^' => (true, 2),
                _ => (false, 1),
            };
            let set = &pattern[from..end];
            let mut within = false;
            let mut place = 0;
            while place < set.len() {
                if let [low, '-', high] = set[place..(place + 3).min(set.len())] {
                    within |= (low..=high).contains(&c);
                    place += 3;
                } else {
                    within |= set[place] == c;
                    place += 1;
                }
            }
            (within != negated).then_some(end + 1)
        }
        literal => (*literal == c).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, name: &str) -> bool {
        matches(
            &pattern.chars().collect::<Vec<_>>(),
            &name.chars().collect::<Vec<_>>(),
        )
    }

    #[test]
    fn patterns_match_as_in_go() {
        let table = [
            ("card*", "card0", true),
            ("card*", "card", true),
            ("card*", "render", false),
            ("card?", "card12", false),
            ("card[0-9]", "card7", true),
            ("card[^0-9]", "card7", false),
            ("card[13]", "card2", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbxx", false),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("[", "[", false),
            ("*", "", true),
            ("", "", true),
        ];
        for (pattern, name, expected) in table {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
        assert!(!fits(&"*a".repeat(200), &"a".repeat(100)));
    }

    #[test]
    fn files_are_found_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let dri = folder.path().join("dri");
        std::fs::create_dir(&dri).unwrap();
        for name in ["card1", "card0", "renderD128"] {
            std::fs::write(dri.join(name), "").unwrap();
        }
        let found = find(&format!("{}/d*/card*", folder.path().display()));
        assert_eq!(found, [dri.join("card0"), dri.join("card1")]);
        assert!(find(&format!("{}/none*/card*", folder.path().display())).is_empty());
        assert_eq!(find(dri.join("card0").to_str().unwrap()).len(), 1);
    }
}
