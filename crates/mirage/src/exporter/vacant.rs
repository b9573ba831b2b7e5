//! Pages with no GPU on them, because the imitated exporter serves boards of another maker than there are.

use std::sync::Arc;

use mirage_state::Image;

use super::hot::Mount;

/// What the operator should hear about a page that no GPU is on.
pub(super) fn warning(mount: &Mount, nodes: &[Arc<Image>]) -> Option<String> {
    let exporter = mount.exporter.get();
    let mut nodes = nodes.iter().filter(|image| !image.cards.is_empty());
    let first = nodes.next()?;
    if exporter.shows(&first.node()) || nodes.any(|image| exporter.shows(&image.node())) {
        return None;
    }
    Some(format!(
        "identity {}: its exporter serves boards of other makers than there are here, so {} shows none of them; choose another \
         identity, or add --any-vendor",
        mount.exporter.recipe().identity,
        mount.place,
    ))
}

#[cfg(test)]
mod tests {
    use mirage_metrics::Options;

    use super::super::hot::{Hot, Recipe};
    use super::super::spec::Place;
    use super::*;
    use crate::publish::{self, Clock};

    fn nodes(models: &[&str]) -> Vec<Arc<Image>> {
        let node = |model: &&str| {
            let plan = mirage_model::config::demo("n", model, 1, 1, 3).unwrap();
            let clock = Clock {
                start_unix_ms: 0,
                period: plan.tick,
                epoch: 0,
            };
            publish::images(&plan, clock).remove(0)
        };
        models.iter().map(node).collect()
    }

    fn told(identity: &str, any_vendor: bool, models: &[&str]) -> Option<String> {
        let recipe = Recipe {
            identity: identity.to_owned(),
            collectors: None,
            options: Options {
                any_vendor,
                ..Options::default()
            },
            every: None,
        };
        let mount = Mount {
            place: Place::Main,
            exporter: Arc::new(Hot::new(recipe).unwrap()),
        };
        warning(&mount, &nodes(models))
    }

    #[test]
    fn an_exporter_of_another_maker_is_told() {
        let said = told("dcgm", false, &["mi300x"]).unwrap();
        assert!(said.contains("--any-vendor"), "{said}");
        assert!(told("xpum", false, &["t4", "mi300x"]).is_some());
        assert_eq!(told("dcgm", false, &["mi300x", "t4"]), None);
        assert_eq!(told("dcgm", true, &["mi300x"]), None);
        assert_eq!(told("xpum", true, &["t4"]), None);
        assert_eq!(told("amd", false, &["mi300x"]), None);
        assert_eq!(told("gaudi", false, &["t4"]), None);
        assert_eq!(told("dcgm", false, &[]), None);
    }
}
