//! How the parts of a role are doing: each tells its trouble here, and `/health` and `/self/metrics` show it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::cli::say;

/// Parts by name, with what troubles them.
#[derive(Debug, Default)]
pub struct Health {
    parts: Mutex<BTreeMap<&'static str, Option<String>>>,
}

impl Health {
    /// A part does its work.
    pub fn good(&self, part: &'static str) {
        let before = self.parts().insert(part, None);
        if before.flatten().is_some() {
            say(&format!("{part}: works again"));
        }
    }

    /// A part cannot do its work, and tries again.
    pub fn trouble(&self, part: &'static str, why: impl std::fmt::Display) {
        let why = why.to_string();
        let before = self.parts().insert(part, Some(why.clone()));
        // Told once, however often it is tried.
        if before.flatten().as_ref() != Some(&why) {
            say(&format!("{part}: {why}; trying again"));
        }
    }

    /// Every part with its trouble, by name.
    pub fn parts_now(&self) -> Vec<(&'static str, Option<String>)> {
        let parts = self.parts();
        parts
            .iter()
            .map(|(name, why)| (*name, why.clone()))
            .collect()
    }

    fn parts(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, Option<String>>> {
        self.parts
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_stands_until_the_part_works() {
        let health = Health::default();
        health.trouble("plugin", "no kubelet");
        assert_eq!(
            health.parts_now(),
            [("plugin", Some("no kubelet".to_owned()))]
        );
        health.good("plugin");
        assert_eq!(health.parts_now(), [("plugin", None)]);
    }
}
