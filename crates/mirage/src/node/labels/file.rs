//! The labels as a feature file of Node Feature Discovery, which puts them onto the node.

use std::path::Path;

use mirage_k8s::cluster::node::Labels;

/// Where Node Feature Discovery looks.
pub(super) const DIRECTORY: &str = "/etc/kubernetes/node-feature-discovery/features.d";
/// The name GPU Feature Discovery gives the file.
const NAME: &str = "gfd";

/// Replaces the file as a whole, unless it is as it should be.
pub(super) async fn write(directory: &Path, labels: &Labels) -> Result<(), String> {
    let (directory, text) = (directory.to_owned(), text(labels));
    tokio::task::spawn_blocking(move || replace(&directory, &text))
        .await
        .map_err(|error| error.to_string())?
}

/// One label on each line.
fn text(labels: &Labels) -> String {
    let lines = labels.iter().map(|(key, value)| format!("{key}={value}\n"));
    lines.collect()
}

fn replace(directory: &Path, text: &str) -> Result<(), String> {
    let path = directory.join(NAME);
    let wrong = |error: std::io::Error| format!("writing {}: {error}", path.display());
    if std::fs::read_to_string(&path).is_ok_and(|now| now == text) {
        return Ok(());
    }
    std::fs::create_dir_all(directory).map_err(wrong)?;
    // Files that begin with a dot are passed over there.
    let new = directory.join(format!(".{NAME}-{}", std::process::id()));
    let written = put(&new, text).and_then(|()| std::fs::rename(&new, &path));
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    written.map_err(wrong)
}

fn put(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut file = std::fs::File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Removes the file; it need not be there.
pub(super) fn remove(directory: &Path) -> Result<(), String> {
    let path = directory.join(NAME);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("removing {}: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_replaced_as_a_whole_and_goes_without_a_trace() {
        let parent = tempfile::tempdir().expect("a directory");
        let directory = parent.path().join("features.d");
        let mut labels = Labels::new();
        labels.insert("nvidia.com/gpu.count".into(), "8".into());
        replace(&directory, &text(&labels)).expect("it can be written");
        labels.insert("nvidia.com/gpu.family".into(), "ampere".into());
        replace(&directory, &text(&labels)).expect("it can be written again");
        let path = directory.join(NAME);
        let found = std::fs::read_to_string(&path).expect("it is there");
        assert_eq!(
            found,
            "nvidia.com/gpu.count=8\nnvidia.com/gpu.family=ampere\n"
        );
        assert_eq!(
            std::fs::read_dir(&directory).expect("a directory").count(),
            1
        );
        remove(&directory).expect("it goes");
        remove(&directory).expect("it may be gone");
        assert!(!path.exists());
    }
}
