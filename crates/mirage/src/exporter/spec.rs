//! `--identity NAME[=PATH|:PORT]`: whose text, and where it is served.

use std::fmt;
use std::str::FromStr;

/// Paths, and beginnings of paths, that are taken.
const TAKEN: &[&str] = &["api", "health", "nodes", "sd", "self"];

/// Longest path.
const LONGEST: usize = 200;

/// An identity and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Name of an identity, or a file that declares one.
    pub identity: String,
    /// Where it is served.
    pub place: Place,
}

/// Where an exporter is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// At `/metrics` of the process's own address.
    Main,
    /// At a path of its own there.
    Path(String),
    /// At `/metrics` of a port of its own.
    Port(u16),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Main => f.write_str("/metrics"),
            Place::Path(path) => f.write_str(path),
            Place::Port(port) => write!(f, ":{port}"),
        }
    }
}

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Spec, String> {
        let spec = |identity: &str, place| {
            if identity.is_empty() {
                return Err("an identity's name is missing; write for example xpum=/xpum".into());
            }
            Ok(Spec {
                identity: identity.to_owned(),
                place,
            })
        };
        if let Some((identity, path)) = text.split_once('=') {
            return spec(identity, path_of(path)?);
        }
        if let Some((identity, port)) = text.rsplit_once(':')
            && port.bytes().all(|byte| byte.is_ascii_digit())
        {
            let port = port
                .parse()
                .map_err(|_| format!("{port:?} is not a port; give 0 to 65535"))?;
            return spec(identity, Place::Port(port));
        }
        spec(text, Place::Main)
    }
}

fn path_of(path: &str) -> Result<Place, String> {
    if path == "/metrics" {
        return Ok(Place::Main);
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
    let words = path.strip_prefix('/').map(|rest| rest.split('/'));
    let Some(mut words) = words.filter(|_| path.bytes().all(plain) && path.len() <= LONGEST) else {
        return Err(format!(
            "{:?} is not a path; write for example /xpum/metrics, of letters, digits, - _ . and /",
            path.chars().take(80).collect::<String>()
        ));
    };
    if words.clone().any(|word| matches!(word, "" | "." | "..")) {
        return Err(format!("{path:?} has an empty part"));
    }
    let first = words.next().unwrap_or_default();
    if TAKEN.contains(&first) {
        return Err(format!(
            "/{first} is taken; choose a path that begins otherwise"
        ));
    }
    Ok(Place::Path(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, Place) {
        let spec: Spec = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
        (spec.identity, spec.place)
    }

    #[test]
    fn places_are_read() {
        for (text, identity, place) in [
            ("dcgm", "dcgm", Place::Main),
            ("dcgm@4.8.2", "dcgm@4.8.2", Place::Main),
            ("dcgm=/metrics", "dcgm", Place::Main),
            ("xpum:29999", "xpum", Place::Port(29999)),
            ("xpum:0", "xpum", Place::Port(0)),
            ("xpum=/x/metrics", "xpum", Place::Path("/x/metrics".into())),
            ("./my.json=/my", "./my.json", Place::Path("/my".into())),
            ("a:b", "a:b", Place::Main),
        ] {
            assert_eq!(read(text), (identity.to_owned(), place), "{text}");
        }
    }

    #[test]
    fn impossible_places_are_refused() {
        for text in [
            "",
            "=/x",
            ":80",
            "xpum=",
            "xpum=x",
            "xpum=/",
            "xpum=/x/",
            "xpum=//x",
            "xpum=/../x",
            "xpum=/{x}",
            "xpum=/*x",
            "xpum=/x y",
            "xpum=/api/v1",
            "xpum=/nodes/x",
            "xpum=/health",
            "xpum:99999",
            "xpum:",
        ] {
            assert!(text.parse::<Spec>().is_err(), "{text}");
        }
        let long = format!("xpum=/{}", "x".repeat(LONGEST));
        assert!(long.parse::<Spec>().is_err());
    }
}
