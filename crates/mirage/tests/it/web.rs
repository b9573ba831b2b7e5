//! `--web-config-file`: the exporter behind passwords and TLS. Key and certificate are made for these tests and open nothing else.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::exporter::Role;
use crate::support::{PATIENCE, mirage, outcome, stderr, wait_for};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/web");
/// `secret`, as crypt(3) hashes it.
const HASH: &str = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";
/// `ada:secret`, `ada:other`, `eve:secret`.
const RIGHT: &str = "Authorization: Basic YWRhOnNlY3JldA==\r\n";
const WRONG: &str = "Authorization: Basic YWRhOm90aGVy\r\n";
const UNKNOWN: &str = "Authorization: Basic ZXZlOnNlY3JldA==\r\n";

/// How a client comes.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Plain,
    Tls,
    TlsWithCertificate,
}

/// The answer to `GET /metrics`; what goes wrong on the way is an error.
fn get(role: &Role, by: By, header: &str) -> io::Result<String> {
    ask(role, by, "/metrics", header)
}

fn ask(role: &Role, by: By, path: &str, header: &str) -> io::Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let question = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{header}Connection: close\r\n\r\n");
    let asking = async {
        let mut stream = TcpStream::connect(&role.address).await?;
        if by == By::Plain {
            return converse(&mut stream, &question).await;
        }
        let name = ServerName::try_from("localhost").expect("a name");
        let connector = TlsConnector::from(client(by == By::TlsWithCertificate));
        converse(&mut connector.connect(name, stream).await?, &question).await
    };
    runtime.block_on(async { tokio::time::timeout(PATIENCE, asking).await? })
}

async fn converse<S: AsyncReadExt + AsyncWriteExt + Unpin>(
    stream: &mut S,
    question: &str,
) -> io::Result<String> {
    stream.write_all(question.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

fn client(with_certificate: bool) -> Arc<ClientConfig> {
    let certificate = CertificateDer::from_pem_file(format!("{FILES}/cert.pem")).expect("one");
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("a root");
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    Arc::new(match with_certificate {
        true => {
            let key = PrivateKeyDer::from_pem_file(format!("{FILES}/key.pem")).expect("a key");
            let built = builder.with_client_auth_cert(vec![certificate], key);
            built.expect("a client")
        }
        false => builder.with_no_client_auth(),
    })
}

/// A directory with the file, and key and certificate beside it.
fn directory(config: &str) -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for name in ["cert.pem", "key.pem"] {
        fs::copy(format!("{FILES}/{name}"), dir.path().join(name)).expect("copied");
    }
    write(dir.path(), config);
    dir
}

fn write(dir: &Path, config: &str) {
    fs::write(dir.join("next"), config).expect("written");
    fs::rename(dir.join("next"), dir.join("web.yml")).expect("renamed");
}

fn start(dir: &TempDir) -> Role {
    let file = dir.path().join("web.yml");
    let file = file.to_str().expect("plain");
    Role::start(&["--web-config-file", file], &[])
}

fn is_page(answer: &io::Result<String>) -> bool {
    let answer = answer.as_ref().map_or("", String::as_str);
    answer.starts_with("HTTP/1.1 200 ") && answer.contains("DCGM_FI_DEV_GPU_TEMP{")
}

#[test]
fn passwords_are_asked_for() {
    let dir = directory(&format!("basic_auth_users:\n  ada: {HASH}\n"));
    let role = start(&dir);
    for header in ["", WRONG, UNKNOWN, "Authorization: Basic %\r\n"] {
        let answer = get(&role, By::Plain, header).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 401 "), "{header}: {answer}");
        assert!(answer.contains("www-authenticate: Basic\r\n"), "{answer}");
        assert!(!answer.contains("DCGM_FI"), "{answer}");
    }
    // Twice: the second time it is remembered.
    for _ in 0..2 {
        assert!(is_page(&get(&role, By::Plain, RIGHT)));
    }
    assert!(
        get(&role, By::Plain, WRONG)
            .expect("an answer")
            .starts_with("HTTP/1.1 401 ")
    );
}

#[test]
fn tls_is_spoken_and_the_file_is_followed() {
    const TLS: &str = "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n";
    let dir = directory(TLS);
    let role = start(&dir);
    assert!(is_page(&get(&role, By::Tls, "")));
    assert!(!is_page(&get(&role, By::Plain, "")));

    let strict = "  client_ca_file: cert.pem\n  client_auth_type: RequireAndVerifyClientCert\n";
    write(dir.path(), &format!("{TLS}{strict}"));
    wait_for("strangers to be refused", || {
        let stranger = get(&role, By::Tls, "");
        assert!(is_page(&get(&role, By::TlsWithCertificate, "")));
        (!is_page(&stranger)).then_some(())
    });

    // A bad file changes nothing.
    write(dir.path(), "tls_server_config: { cert_file: cert.pem }\n");
    wait_for("the trouble in /health", || {
        let health = ask(&role, By::TlsWithCertificate, "/health", "").ok()?;
        health.contains("key_file is missing").then_some(())
    });
    assert!(!is_page(&get(&role, By::Tls, "")));
    write(
        dir.path(),
        &format!("{TLS}basic_auth_users: {{ ada: {HASH} }}\n"),
    );
    wait_for("passwords instead", || {
        is_page(&get(&role, By::Tls, RIGHT)).then_some(())
    });
    assert!(!is_page(&get(&role, By::Tls, "")));
}

#[test]
fn what_cannot_be_meant_is_refused_at_the_start() {
    for (config, words) in [
        ("tls: {}", "is not known"),
        ("basic_auth_users: { ada: secret }", "not a bcrypt hash"),
        (
            "basic_auth_users: { ada: $2b$31$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW }",
            "cost of 31",
        ),
        (
            "tls_server_config: { cert_file: cert.pem }",
            "key_file is missing",
        ),
        (
            "tls_server_config: { cert_file: no.pem, key_file: key.pem }",
            "no.pem",
        ),
        (
            "tls_server_config: { cert_file: key.pem, key_file: key.pem }",
            "no certificate",
        ),
        (
            "tls_server_config: { cert_file: cert.pem, key_file: cert.pem }",
            "the key in",
        ),
        (
            "tls_server_config: { cert_file: cert.pem, key_file: key.pem, client_auth_type: RequestClientCert }",
            "RequireAndVerifyClientCert",
        ),
        (
            "tls_server_config: { cert_file: cert.pem, key_file: key.pem, cipher_suites: [x] }",
            "cipher_suites",
        ),
        ("http_server_config: { headers: { a: b } }", "leave it out"),
        ("[", "line "),
        ("- a", "not a mapping"),
    ] {
        let dir = directory(config);
        let mut role = mirage();
        role.args(["dcgm-exporter", "-a", "127.0.0.1:0", "--web-config-file"]);
        role.arg(dir.path().join("web.yml"));
        let output = outcome(role);
        assert!(!output.status.success(), "{config}");
        let said = stderr(&output);
        assert!(said.contains(words), "{config}: {said}");
    }
}
