//! Topology documents as text.

use serde_json::{Map, Value};

use super::yaml;
use super::{Cluster, Container, Gpu, Mig, Node, Other, Status, Usage};

/// How keys are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// `gpu-memory`: the GPU Mock and MIG designs.
    #[default]
    Kebab,
    /// `gpuMemory`: fake-gpu-operator's ConfigMaps.
    Camel,
    /// `GpuMemory`: fake-gpu-operator's topology server.
    Go,
}

impl Style {
    fn key(self, kebab: &str) -> String {
        if self == Style::Kebab {
            return kebab.to_owned();
        }
        if self == Style::Go && kebab == "id" {
            return "ID".to_owned();
        }
        let mut key = String::with_capacity(kebab.len());
        let mut capital = self == Style::Go;
        for letter in kebab.chars() {
            match letter {
                '-' => capital = true,
                letter if capital => {
                    key.push(letter.to_ascii_uppercase());
                    capital = false;
                }
                letter => key.push(letter),
            }
        }
        key
    }

    /// fake-gpu-operator writes every field, the designs only those that say something.
    fn is_full(self) -> bool {
        self != Style::Kebab
    }
}

/// A mapping in the making.
struct Entries {
    style: Style,
    map: Map<String, Value>,
}

impl Entries {
    fn new(style: Style) -> Self {
        let map = Map::new();
        Self { style, map }
    }

    fn put(&mut self, key: &str, value: impl Into<Value>) -> &mut Self {
        self.map.insert(self.style.key(key), value.into());
        self
    }

    fn put_if(&mut self, said: bool, key: &str, value: impl Into<Value>) -> &mut Self {
        if said { self.put(key, value) } else { self }
    }

    fn done(&mut self) -> Value {
        Value::Object(std::mem::take(&mut self.map))
    }
}

impl Cluster {
    /// The document in this spelling, as YAML.
    pub fn yaml(&self, style: Style) -> String {
        yaml::document(&self.value(style))
    }

    /// The document in this spelling.
    pub fn value(&self, style: Style) -> Value {
        let mut entries = Entries::new(style);
        let full = style.is_full();
        entries.put_if(
            style == Style::Go || !self.mig_strategy.is_empty(),
            "mig-strategy",
            &*self.mig_strategy,
        );
        entries.put_if(
            !self.pool_label.is_empty(),
            "node-pool-label-key",
            &*self.pool_label,
        );
        let pools = self.pools.iter().map(|(name, pool)| {
            let mut entries = Entries::new(style);
            entries
                .put("gpu-product", &*pool.product)
                .put("gpu-count", pool.count)
                .put("gpu-memory", pool.memory_mib);
            entries.put_if(
                !pool.others.is_empty(),
                "other-devices",
                others(&pool.others, style),
            );
            (name.clone(), entries.done())
        });
        entries.put_if(
            full || !self.pools.is_empty(),
            "node-pools",
            pools.collect::<Map<_, _>>(),
        );
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|(name, node)| (name.clone(), node.value(style)));
        entries.put_if(
            !self.nodes.is_empty(),
            "nodes",
            nodes.collect::<Map<_, _>>(),
        );
        entries.done()
    }
}

impl Node {
    /// The node's own document in this spelling, as YAML.
    pub fn yaml(&self, style: Style) -> String {
        yaml::document(&self.value(style))
    }

    /// The node's own document in this spelling.
    pub fn value(&self, style: Style) -> Value {
        let mut entries = Entries::new(style);
        // Go's clients decode missing text as empty; a person reads what is said.
        let go = style == Style::Go;
        let text = |text: &Option<String>| Value::from(text.as_deref().unwrap_or(""));
        entries.put_if(!style.is_full(), "gpu-count", self.gpus.len());
        entries.put("gpu-memory", self.memory_mib);
        entries.put("gpu-product", &*self.product);
        entries.put_if(
            go || self.driver.is_some(),
            "driver-version",
            text(&self.driver),
        );
        entries.put_if(go || self.cuda.is_some(), "cuda-version", text(&self.cuda));
        entries.put_if(
            go || self.mig_strategy.is_some(),
            "mig-strategy",
            text(&self.mig_strategy),
        );
        entries.put_if(self.dynamic_mig, "is-dynamic-mig-enabled", true);
        entries.put_if(
            go || !self.others.is_empty(),
            "other-devices",
            others(&self.others, style),
        );
        let gpus: Vec<Value> = self.gpus.iter().map(|gpu| gpu.value(style)).collect();
        entries.put("gpus", gpus);
        entries.done()
    }
}

impl Gpu {
    fn value(&self, style: Style) -> Value {
        let mut entries = Entries::new(style);
        entries.put("id", &*self.id);
        entries.put_if(
            style.is_full() || !self.status.is_free(),
            "status",
            status(&self.status, style),
        );
        if let Some(instances) = &self.mig {
            let instances: Vec<Value> = instances.iter().map(|mig| mig.value(style)).collect();
            entries.put("mig-devices", instances);
        }
        entries.done()
    }
}

impl Mig {
    fn value(&self, style: Style) -> Value {
        let mut entries = Entries::new(style);
        if let Some(id) = &self.id {
            entries.put("id", &**id);
        }
        entries.put("name", &*self.name);
        if let Some(position) = self.position {
            entries.put("position", position);
        }
        entries.put_if(
            !self.status.is_free(),
            "status",
            status(&self.status, style),
        );
        entries.done()
    }
}

fn others(others: &[Other], style: Style) -> Vec<Value> {
    let entry = |other: &Other| {
        let mut entries = Entries::new(style);
        entries
            .put("name", &*other.name)
            .put("count", other.count)
            .done()
    };
    others.iter().map(entry).collect()
}

fn status(status: &Status, style: Style) -> Value {
    let mut entries = Entries::new(style);
    let nobody = Container::default();
    let container = status.allocated_by.as_ref();
    if style.is_full() || container.is_some() {
        let container = container.unwrap_or(&nobody);
        let mut owner = Entries::new(style);
        owner
            .put("namespace", &*container.namespace)
            .put("pod", &*container.pod)
            .put("container", &*container.container);
        entries.put("allocated-by", owner.done());
    }
    let uses = status.usage.iter();
    let uses = uses.map(|(uid, uses)| (uid.clone(), usage(uses, style)));
    entries.put_if(
        style.is_full() || !status.usage.is_empty(),
        "pod-gpu-usage-status",
        uses.collect::<Map<_, _>>(),
    );
    entries.done()
}

fn usage(usage: &Usage, style: Style) -> Value {
    let mut range = Entries::new(style);
    range.put("min", usage.min).put("max", usage.max);
    let mut entries = Entries::new(style);
    entries
        .put("utilization", range.done())
        .put("fb-used", usage.memory_mib);
    let inference = match style {
        Style::Kebab => "is-inference-pod",
        Style::Camel | Style::Go => "use-knative-utilization",
    };
    entries.put(inference, usage.inference).done()
}
