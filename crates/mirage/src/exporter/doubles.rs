//! Series that several nodes have in common: an identity made for one machine tells nothing apart on a page of many, and
//! Prometheus refuses or mixes such samples.

use std::collections::HashSet;
use std::sync::Arc;

use mirage_metrics::{Exporter, Subject};
use mirage_state::Image;

use super::hot::Mount;
use super::spec::Place;

/// What the operator of a fleet should hear about a page, if two of its nodes have a series in common.
pub(super) fn warning(mount: &Mount, nodes: &[Arc<Image>]) -> Option<String> {
    let series = common(&mount.exporter.get(), nodes)?;
    let (page, listed) = match &mount.place {
        Place::Main => ("/metrics", "; /sd lists these pages for Prometheus"),
        Place::Path(path) => (path.as_str(), ""),
        Place::Port(_) => (
            "/metrics",
            "; /sd on its port lists these pages for Prometheus",
        ),
    };
    Some(format!(
        "identity {}: nodes have series in common ({series}), which a page of all of them holds more than once; scrape \
         /nodes/<node>{page} of each node instead{listed}",
        mount.exporter.recipe().identity,
    ))
}

/// A series that the first two nodes both have; what these share, all do.
fn common(exporter: &Exporter, nodes: &[Arc<Image>]) -> Option<String> {
    let [first, second, ..] = nodes else {
        return None;
    };
    let (first, second) = (page(exporter, first), page(exporter, second));
    let known: HashSet<&str> = series(&first).collect();
    let mut shared = series(&second).filter(|name| known.contains(name));
    shared.next().map(str::to_owned)
}

fn page(exporter: &Exporter, image: &Image) -> String {
    let subject = Subject {
        node: image.node(),
        notes: None,
    };
    let mut chunks = exporter.chunks(std::iter::once(subject));
    let (mut text, mut piece) = (Vec::new(), Vec::new());
    while chunks.next_into(&mut piece) {
        text.extend_from_slice(&piece);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Names and labels of all samples.
fn series(page: &str) -> impl Iterator<Item = &str> {
    page.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(series, _)| series)
}

#[cfg(test)]
mod tests {
    use mirage_metrics::{Identity, Options, Selection};

    use super::*;
    use crate::publish::{self, Clock};

    fn fleet() -> Vec<Arc<Image>> {
        let plan = mirage_model::config::demo("n", "a100-sxm4-40gb", 2, 2, 3).unwrap();
        let world = mirage_sim::World::new(&plan);
        let clock = Clock {
            start_unix_ms: 0,
            period: plan.tick,
            epoch: 0,
        };
        let mut images = publish::images(&plan, clock);
        for (at, image) in images.iter_mut().enumerate() {
            publish::refresh(Arc::make_mut(image), &plan, &world, at, clock);
        }
        images
    }

    #[test]
    fn an_identity_of_one_machine_is_told_on_a_fleet() {
        let exporter = |name: &str| {
            let identity = Identity::by_name(name).unwrap();
            Exporter::new(&identity, &Selection::default_set(), Options::default()).unwrap()
        };
        let fleet = fleet();
        let lone = exporter("nvidia-gpu-exporter");
        let series = common(&lone, &fleet).unwrap();
        assert!(series.starts_with("nvidia_smi_"), "{series}");
        assert_eq!(common(&lone, &fleet[..1]), None);
        for name in ["dcgm", "xpum", "amd", "gaudi"] {
            assert_eq!(common(&exporter(name), &fleet), None, "{name}");
        }
    }
}
