//! `--web-config-file`: TLS and passwords, by the file that Prometheus' exporters share. It is read again when it or a file it names
//! changes; one that cannot be read leaves the old rules in force.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bcrypt::HashParts;
use mirage_model::yaml::{self, Node};
use tokio::sync::Semaphore;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{WebPkiClientVerifier, danger::ClientCertVerifier};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::cli::{say, usage};
use crate::health::Health;
use crate::reload::{Version, version};
use crate::source;

/// Its name in `/health`.
const PART: &str = "web-config";
/// The hash that an unknown user's password is held against, so that answers do not tell who is known.
const NOBODY: &str = "$2b$10$abcdefghijklmnopqrstuumAY9DFgYpVwYx5QtZiPgXJIEJ/ICD0G";
/// A hash that costs more would let one client keep a core busy for seconds.
const MOST_COST: u32 = 14;
/// How often the files are looked at.
const EVERY: Duration = Duration::from_secs(1);
/// Most passwords remembered as right.
const REMEMBERED: usize = 256;

/// TLS and passwords of a server.
#[derive(Debug)]
pub struct Web {
    path: PathBuf,
    rules: RwLock<Arc<Rules>>,
    /// Digests of what was right once: a good hash takes long to check.
    right: Mutex<HashSet<[u8; 20]>>,
    /// One password at a time: checking is meant to be costly.
    turn: Semaphore,
}

#[derive(Debug, Default)]
struct Rules {
    tls: Option<Arc<ServerConfig>>,
    /// Names, and hashes of passwords.
    users: BTreeMap<String, String>,
    /// All files that were read, as they were just before.
    files: Vec<(PathBuf, Option<Version>)>,
}

impl Web {
    /// Reads the file.
    pub fn open(path: &Path) -> Result<Web> {
        Ok(Web {
            path: path.to_owned(),
            rules: RwLock::new(Arc::new(Rules::read(path)?)),
            right: Mutex::default(),
            turn: Semaphore::new(1),
        })
    }

    /// How to speak TLS now, if at all.
    pub(super) fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.rules().tls.clone()
    }

    /// Whether it speaks TLS now.
    pub fn is_tls(&self) -> bool {
        self.rules().tls.is_some()
    }

    /// Follows the files for ever.
    pub async fn follow(self: Arc<Self>, health: Arc<Health>) {
        loop {
            tokio::time::sleep(EVERY).await;
            let (web, health) = (self.clone(), health.clone());
            // A file may lie on a disk that does not answer. A panic there has been told; the rules in force stay.
            let _ = tokio::task::spawn_blocking(move || web.look(&health)).await;
        }
    }

    /// Looks at the files, and takes over what changed.
    fn look(&self, health: &Health) {
        let rules = self.rules();
        let mut files = rules.files.iter();
        // One that is gone for a moment is being replaced.
        if files.all(|(path, before)| version(path).is_none_or(|now| Some(now) == *before)) {
            return health.good(PART);
        }
        match Rules::read(&self.path) {
            Ok(rules) => {
                *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
                say(&format!("{} reloaded", self.path.display()));
                health.good(PART);
            }
            Err(error) => health.trouble(PART, format!("{error:#}; the old rules stay in force")),
        }
    }

    fn rules(&self) -> Arc<Rules> {
        self.rules
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    async fn lets_in(&self, headers: &HeaderMap) -> bool {
        let rules = self.rules();
        if rules.users.is_empty() {
            return true;
        }
        let Some((user, password)) = credentials(headers) else {
            return false;
        };
        let hash = rules.users.get(&user).map_or(NOBODY, String::as_str);
        let digest = sha1_smol::Sha1::from([user.as_str(), hash, &password].join("\0")).digest();
        if self.remembered().contains(&digest.bytes()) {
            return true;
        }
        let Ok(_turn) = self.turn.acquire().await else {
            return false;
        };
        let (hash, is_known) = (hash.to_owned(), rules.users.contains_key(&user));
        let checking = tokio::task::spawn_blocking(move || bcrypt::verify(password, &hash));
        let right = is_known && matches!(checking.await, Ok(Ok(true)));
        if right {
            let mut remembered = self.remembered();
            if remembered.len() >= REMEMBERED {
                remembered.clear();
            }
            remembered.insert(digest.bytes());
        }
        right
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, HashSet<[u8; 20]>> {
        self.right.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets a request pass if its password is right.
pub(super) async fn guard(State(web): State<Arc<Web>>, request: Request, next: Next) -> Response {
    if web.lets_in(request.headers()).await {
        return next.run(request).await;
    }
    let ask = [(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic"))];
    (StatusCode::UNAUTHORIZED, ask, "Unauthorized\n").into_response()
}

/// Name and password of a request.
fn credentials(headers: &HeaderMap) -> Option<(String, String)> {
    let given = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, coded) = given.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(BASE64_STANDARD.decode(coded.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

impl Rules {
    fn read(path: &Path) -> Result<Rules> {
        let shown = path.display();
        let before = version(path);
        let text = source::read(path)?;
        let node = yaml::parse(&text).map_err(|problems| {
            let first = problems.first().map(ToString::to_string);
            usage(format!("{shown}: {}", first.unwrap_or_default()))
        })?;
        let mut rules = Rules {
            files: vec![(path.to_owned(), before)],
            ..Rules::default()
        };
        let directory = path.parent().unwrap_or(Path::new("."));
        rules
            .take(&node, directory)
            .with_context(|| format!("reading {shown}"))?;
        Ok(rules)
    }

    fn take(&mut self, node: &Node, directory: &Path) -> Result<()> {
        for (key, value) in entries(node, "the file")? {
            match key {
                "tls_server_config" => self.take_tls(value, directory)?,
                "basic_auth_users" => self.take_users(value)?,
                "http_server_config" => {
                    for (key, value) in entries(value, key)? {
                        // HTTP/1.1 is all there is, with it or without.
                        if key != "http2" || value.bool().is_none() {
                            bail!("http_server_config.{key} is not possible here; leave it out");
                        }
                    }
                }
                _ => bail!(
                    "{key:?} is not known; there are tls_server_config, basic_auth_users and http_server_config"
                ),
            }
        }
        Ok(())
    }

    fn take_users(&mut self, node: &Node) -> Result<()> {
        for (user, hash) in entries(node, "basic_auth_users")? {
            let hash = hash.text().unwrap_or_default();
            let parts = HashParts::from_str(hash);
            let cost = parts.map(|parts| parts.get_cost()).map_err(|_| {
                anyhow!("basic_auth_users.{user} is not a bcrypt hash; make one with `htpasswd -nB {user}`")
            })?;
            if cost > MOST_COST {
                bail!(
                    "basic_auth_users.{user}: a cost of {cost} is above the limit of {MOST_COST}"
                );
            }
            self.users.insert(user.to_owned(), hash.to_owned());
        }
        Ok(())
    }

    fn take_tls(&mut self, node: &Node, directory: &Path) -> Result<()> {
        let mut files: BTreeMap<&str, PathBuf> = BTreeMap::new();
        let (mut auth, mut is_modern) = ("NoClientCert", false);
        for (key, value) in entries(node, "tls_server_config")? {
            if value.is_null() {
                continue;
            }
            // A list has no text, and no key that is taken has a list.
            let text = value.text().unwrap_or("a list");
            match (key, text) {
                (_, "") => {}
                ("cert_file" | "key_file" | "client_ca_file", name) => {
                    // Relative paths count from the file that names them.
                    _ = files.insert(key, directory.join(name));
                }
                ("client_auth_type", kind) => auth = kind,
                ("min_version", "TLS13") => is_modern = true,
                ("min_version", "TLS10" | "TLS11" | "TLS12") | ("max_version", "TLS13") => {}
                ("prefer_server_cipher_suites", _) => {}
                _ => bail!("tls_server_config.{key}: {text} is not possible here; leave it out"),
            }
        }
        if files.is_empty() && auth == "NoClientCert" {
            return Ok(());
        }
        for path in files.values() {
            self.files.push((path.clone(), version(path)));
        }
        let file = |key: &str| {
            let file = files.get(key);
            file.ok_or_else(|| anyhow!("tls_server_config.{key} is missing"))
        };
        let certificates = certificates(file("cert_file")?)?;
        let key = file("key_file")?;
        let key = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| anyhow!("reading the key in {}: {error}", key.display()))?;
        let versions: &[_] = if is_modern {
            &[&TLS13]
        } else {
            &[&TLS13, &TLS12]
        };
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .context("choosing TLS versions")?;
        let builder = match auth {
            "NoClientCert" => builder.with_no_client_auth(),
            "VerifyClientCertIfGiven" => {
                builder.with_client_cert_verifier(verifier(file("client_ca_file")?, true)?)
            }
            "RequireAndVerifyClientCert" => {
                builder.with_client_cert_verifier(verifier(file("client_ca_file")?, false)?)
            }
            other => bail!(
                "tls_server_config.client_auth_type: {other} is not possible here; write NoClientCert, \
                 VerifyClientCertIfGiven or RequireAndVerifyClientCert"
            ),
        };
        let mut config = builder
            .with_single_cert(certificates, key)
            .context("tls_server_config: key and certificate")?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        self.tls = Some(Arc::new(config));
        Ok(())
    }
}

/// Who may come in by certificate.
fn verifier(file: &Path, is_optional: bool) -> Result<Arc<dyn ClientCertVerifier>> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots
            .add(certificate)
            .with_context(|| format!("reading {}", file.display()))?;
    }
    let provider = Arc::new(ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match is_optional {
        true => builder.allow_unauthenticated(),
        false => builder,
    };
    builder
        .build()
        .with_context(|| format!("reading {}", file.display()))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let shown = file.display();
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let read = read.map_err(|error| anyhow!("reading certificates in {shown}: {error}"))?;
    if read.is_empty() {
        bail!("{shown} holds no certificate");
    }
    Ok(read)
}

/// Keys and values of a mapping; nothing is an empty one.
fn entries<'a>(node: &'a Node, place: &str) -> Result<Vec<(&'a str, &'a Node)>> {
    if node.is_null() {
        return Ok(Vec::new());
    }
    let entries = node
        .entries()
        .with_context(|| format!("{place} is {}, not a mapping", node.shape()))?;
    let pairs = entries
        .iter()
        .map(|(key, value)| (key.text.as_str(), value));
    Ok(pairs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever is unknown must cost as much as whoever is known.
    #[test]
    fn the_hash_of_nobody_is_one() {
        assert_eq!(NOBODY.parse::<HashParts>().unwrap().get_cost(), 10);
        assert!(!bcrypt::verify("", NOBODY).unwrap());
    }
}
