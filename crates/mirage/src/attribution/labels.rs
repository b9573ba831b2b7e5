//! Which labels of pods are shown: `--kubernetes-pod-label-allowlist-regex`.

use std::collections::BTreeMap;

use regex_lite::Regex;

/// A choice of labels.
#[derive(Debug, Clone, Default)]
pub struct LabelFilter {
    /// Names that match any of these are shown; all when there is none.
    patterns: Vec<Regex>,
}

impl LabelFilter {
    /// Reads patterns. As in the real exporter, one that cannot be read is passed over (it comes back in the second
    /// half, with the reason), and with none left all labels are shown.
    pub fn new(patterns: &[String]) -> (LabelFilter, Vec<String>) {
        let mut filter = LabelFilter::default();
        let mut refused = Vec::new();
        for pattern in patterns.iter().filter(|pattern| !pattern.is_empty()) {
            match Regex::new(pattern) {
                Ok(regex) => filter.patterns.push(regex),
                Err(error) => refused.push(format!("{pattern:?}: {error}")),
            }
        }
        (filter, refused)
    }

    /// The labels that are shown.
    pub(super) fn choose(&self, labels: &BTreeMap<String, String>) -> Vec<(String, String)> {
        let shown = |name: &str| {
            self.patterns.is_empty() || self.patterns.iter().any(|regex| regex.is_match(name))
        };
        labels
            .iter()
            .filter(|(name, _)| shown(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(patterns: &[&str]) -> (Vec<String>, usize) {
        let patterns: Vec<_> = patterns.iter().map(|&p| p.to_owned()).collect();
        let (filter, refused) = LabelFilter::new(&patterns);
        let labels = ["app", "app.kubernetes.io/name", "team"];
        let labels = labels.map(|name| (name.to_owned(), "x".to_owned())).into();
        let names = filter.choose(&labels).into_iter().map(|(name, _)| name);
        (names.collect(), refused.len())
    }

    #[test]
    fn names_are_matched_anywhere_by_any_pattern() {
        assert_eq!(chosen(&[]).0.len(), 3);
        assert_eq!(chosen(&[""]).0.len(), 3);
        assert_eq!(chosen(&["^app$", "tea"]).0, ["app", "team"]);
        assert_eq!(chosen(&["kubernetes"]).0, ["app.kubernetes.io/name"]);
        assert_eq!(chosen(&["nothing"]).0, [""; 0]);
        // What cannot be read is passed over, and with nothing left everything is shown.
        assert_eq!(chosen(&["(", "^team$"]), (vec!["team".into()], 1));
        assert_eq!(chosen(&["("]).0.len(), 3);
    }
}
