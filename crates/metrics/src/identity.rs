//! Whose text an exporter speaks: dcgm-exporter in its versions, or one of the declared identities.

use std::sync::Arc;

use crate::Error;
use crate::dcgm::{self, Version};
use crate::declared::{self, Declared};

/// The files of `identities/`, by name.
pub(crate) const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/identities.rs"));

/// An exporter's way of speaking: its metrics, labels, order and number formats.
#[derive(Debug, Clone)]
pub struct Identity {
    name: String,
    pub(crate) speech: Speech,
}

/// How an identity is rendered.
#[derive(Debug, Clone)]
pub(crate) enum Speech {
    Dcgm(Version),
    Declared(Arc<Declared>),
}

impl Identity {
    /// The identity of a name: `dcgm`, `dcgm@4.8.2`, `xpum`, …. `dcgm` alone is the last version that
    /// was released with `Hostname` spelled so; any version may be asked for.
    pub fn by_name(name: &str) -> Result<Identity, Error> {
        let unknown = || Error::UnknownIdentity {
            name: name.chars().take(80).collect(),
            known: Identity::names().join(", "),
        };
        let (stem, version) = match name.split_once('@') {
            Some((stem, version)) => (stem, Some(version)),
            None => (name, None),
        };
        if matches!(stem, "dcgm" | "dcgm-exporter") {
            return Ok(Identity {
                name: name.to_owned(),
                speech: Speech::Dcgm(dcgm::version(version).ok_or_else(unknown)?),
            });
        }
        let (_, text) = FILES
            .iter()
            .find(|(file, _)| *file == stem)
            .ok_or_else(unknown)?;
        let declared = declared::parse(text, stem)?;
        if version.is_some_and(|v| v != declared.version) {
            return Err(unknown());
        }
        Ok(Identity {
            name: name.to_owned(),
            speech: Speech::Declared(Arc::new(declared)),
        })
    }

    /// The names [`Identity::by_name`] knows.
    pub fn names() -> Vec<&'static str> {
        let mut names = vec!["dcgm"];
        names.extend(dcgm::VERSIONS.iter().map(|v| v.name));
        names.extend(FILES.iter().map(|(name, _)| *name));
        names
    }

    /// Reads a declared identity from its file's text; `name` is the file's, for messages.
    pub fn parse(text: &str, name: &str) -> Result<Identity, Error> {
        Ok(Identity {
            name: name.to_owned(),
            speech: Speech::Declared(Arc::new(declared::parse(text, name)?)),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One sentence on what it imitates.
    pub fn about(&self) -> &str {
        match &self.speech {
            Speech::Dcgm(version) => version.about,
            Speech::Declared(declared) => &declared.about,
        }
    }

    /// What its file names and no page shows, in words.
    pub fn gaps(&self) -> &[String] {
        match &self.speech {
            Speech::Dcgm(_) => &[],
            Speech::Declared(declared) => &declared.gaps,
        }
    }

    /// Whether a [`crate::Selection`] chooses its fields.
    pub fn takes_selection(&self) -> bool {
        matches!(self.speech, Speech::Dcgm(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_is_there_and_every_file_is_listed() {
        for name in Identity::names() {
            assert_eq!(Identity::by_name(name).unwrap().name(), name);
        }
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/identities");
        let mut files: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let mut listed: Vec<String> = FILES.iter().map(|(n, _)| format!("{n}.json")).collect();
        listed.sort();
        assert_eq!(files, listed);
    }

    #[test]
    fn unknown_names_list_those_there_are() {
        for name in [
            "",
            "dcgn",
            "dcgm@x",
            "xpum@0.1",
            "dcgm@",
            "@",
            "dcgm@+",
            "dcgm@4",
            "dcgm@4.8.3++",
            "dcgm@4.8.2.1",
            "dcgm@4.",
            "dcgm@4.8.3-",
            "dcgm@ubuntu22.04",
        ] {
            let error = Identity::by_name(name).unwrap_err().to_string();
            assert!(error.contains("dcgm@4.8.2, "), "{error}");
            assert!(error.contains("fake-gpu-operator"), "{error}");
        }
    }

    #[test]
    fn dcgm_versions_differ_in_the_host_name() {
        let hostname = |name: &str| match Identity::by_name(name).unwrap().speech {
            Speech::Dcgm(version) => version.hostname,
            Speech::Declared(_) => "declared",
        };
        assert_eq!(hostname("dcgm"), "Hostname");
        assert_eq!(hostname("dcgm@4.8.2"), "Hostname");
        assert_eq!(hostname("dcgm@4.5.3-4.8.2"), "Hostname");
        assert_eq!(hostname("dcgm-exporter@3.3.9"), "Hostname");
        assert_eq!(hostname("dcgm@4.8.3"), "hostname");
        assert_eq!(hostname("dcgm@4.10.0"), "hostname");
        // As documents speak of them.
        assert_eq!(hostname("dcgm@4.8.3+"), "hostname");
        assert_eq!(hostname("dcgm@4.9"), "hostname");
        assert_eq!(hostname("dcgm@4.8"), "Hostname");
        assert_eq!(hostname("dcgm@main"), "hostname");
        // As images are tagged.
        assert_eq!(hostname("dcgm@4.5.3-4.8.2-distroless"), "Hostname");
        assert_eq!(hostname("dcgm@4.6.0-4.8.3-ubuntu22.04"), "hostname");
    }
}
