//! Label pairs in text: in the order of their names, with values that cannot break a line.

/// A group of labels.
#[derive(Debug, Default, Clone)]
pub(super) struct Labels(Vec<(String, String)>);

impl Labels {
    pub(super) fn push(&mut self, name: &str, value: &str) {
        self.0.push((name.to_owned(), escape(value)));
    }

    /// `a="1", b="2"`.
    pub(super) fn into_text(mut self) -> String {
        self.0.sort_by(|one, other| one.0.cmp(&other.0));
        let pairs: Vec<String> = self
            .0
            .iter()
            .map(|(name, value)| format!("{name}=\"{value}\""))
            .collect();
        pairs.join(", ")
    }
}

/// A name that stands twice in these groups of one series.
pub(super) fn clash<'a>(groups: &[&'a Labels]) -> Option<&'a str> {
    let mut names: Vec<&str> = groups
        .iter()
        .flat_map(|group| &group.0)
        .map(|(name, _)| name.as_str())
        .collect();
    names.sort_unstable();
    names
        .windows(2)
        .find(|pair| pair[0] == pair[1])
        .map(|pair| pair[0])
}

fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_leave_their_quotes() {
        let mut labels = Labels::default();
        labels.push("b", "2");
        labels.push("a", "x\"} 1\nfake{c=\"\\");
        assert_eq!(
            labels.into_text(),
            "a=\"x\\\"} 1\\nfake{c=\\\"\\\\\", b=\"2\""
        );
    }

    #[test]
    fn a_name_may_stand_once() {
        let mut own = Labels::default();
        own.push("a", "1");
        let mut other = Labels::default();
        other.push("b", "1");
        assert_eq!(clash(&[&own, &other]), None);
        other.push("a", "2");
        assert_eq!(clash(&[&own, &other]), Some("a"));
    }
}
