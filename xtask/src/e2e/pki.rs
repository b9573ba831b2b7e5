//! Certificates and kubeconfigs: one authority, a certificate per program, all made by openssl in the scratch directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::plane::{API, SERVICE_IP};
use super::{NODE, NODE_IP};

const EC: &[&str] = &[
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:P-256",
    "-nodes",
];
const DAYS: &str = "3650";

/// The directory with `<name>.crt`, `<name>.key` and `<name>.kubeconfig`.
#[derive(Clone)]
pub(super) struct Pki(PathBuf);

impl Pki {
    /// Makes everything.
    pub(super) fn make(directory: PathBuf) -> Result<Pki> {
        fs::create_dir_all(&directory)
            .with_context(|| format!("making {}", directory.display()))?;
        let pki = Pki(directory);
        let mut authority = pki.openssl();
        authority.args(["req", "-x509", "-days", DAYS, "-subj", "/CN=mirage-e2e"]);
        authority
            .args(EC)
            .args(["-keyout", "ca.key", "-out", "ca.crt"]);
        authority.args(["-addext", "basicConstraints=critical,CA:TRUE"]);
        authority.args([
            "-addext",
            "keyUsage=critical,keyCertSign,cRLSign,digitalSignature",
        ]);
        run(&mut authority)?;
        run(pki
            .openssl()
            .args(["genrsa", "-out", "serviceaccount.key", "2048"]))?;
        run(pki
            .openssl()
            .args(["rsa", "-in", "serviceaccount.key", "-pubout"])
            .args(["-out", "serviceaccount.pub"]))?;

        let kubernetes =
            "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:localhost";
        let api = format!("{kubernetes},IP:127.0.0.1,IP:{SERVICE_IP},IP:{NODE_IP}");
        pki.sign("apiserver", "/CN=kube-apiserver", Some(&api))?;
        let node = format!("/O=system:nodes/CN=system:node:{NODE}");
        let names = format!("DNS:{NODE},IP:{NODE_IP},IP:127.0.0.1");
        pki.sign("kubelet-server", &node, Some(&names))?;
        pki.sign("apiserver-client", "/O=system:masters/CN=apiserver", None)?;
        for (name, subject) in [
            ("admin", "/O=system:masters/CN=admin"),
            ("controller-manager", "/CN=system:kube-controller-manager"),
            ("scheduler", "/CN=system:kube-scheduler"),
            ("kubelet", node.as_str()),
            ("mirage", "/CN=mirage"),
        ] {
            pki.sign(name, subject, None)?;
            pki.kubeconfig(name)?;
        }
        Ok(pki)
    }

    /// A file of the directory.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn openssl(&self) -> Command {
        let mut command = Command::new("openssl");
        command.current_dir(&self.0);
        command
    }

    /// A server's certificate when it has names, else a client's.
    fn sign(&self, name: &str, subject: &str, names: Option<&str>) -> Result<()> {
        let (key, request) = (format!("{name}.key"), format!("{name}.csr"));
        let mut ask = self.openssl();
        ask.args(["req", "-subj", subject]).args(EC);
        run(ask.args(["-keyout", &key, "-out", &request]))?;
        let usage = if names.is_some() { "server" } else { "client" };
        let mut extensions = format!(
            "basicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage={usage}Auth\n"
        );
        if let Some(names) = names {
            extensions += &format!("subjectAltName={names}\n");
        }
        let file = format!("{name}.ext");
        fs::write(self.file(&file), extensions).context("writing certificate extensions")?;
        let mut sign = self.openssl();
        sign.args(["x509", "-req", "-days", DAYS, "-in", &request]);
        sign.args(["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"]);
        run(sign.args(["-extfile", &file, "-out", &format!("{name}.crt")]))
    }

    /// JSON is YAML, and kubeconfigs may be either.
    fn kubeconfig(&self, name: &str) -> Result<()> {
        let file = |suffix: &str| self.file(suffix).display().to_string();
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": {"server": format!("https://{API}"), "certificate-authority": file("ca.crt")}}],
            "users": [{"name": name, "user": {
                "client-certificate": file(&format!("{name}.crt")),
                "client-key": file(&format!("{name}.key")),
            }}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": name}}],
            "current-context": "e2e",
        });
        let path = self.file(&format!("{name}.kubeconfig"));
        fs::write(&path, config.to_string()).with_context(|| format!("writing {}", path.display()))
    }
}

/// openssl talks while it works; its words matter only when it ends badly.
fn run(command: &mut Command) -> Result<()> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .context("certificates are made by openssl: apt-get install openssl")?;
    if !output.status.success() {
        bail!(
            "{} ended with {}: {}",
            crate::shell::show(command),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

/// Where a directory of certificates lies.
impl AsRef<Path> for Pki {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}
