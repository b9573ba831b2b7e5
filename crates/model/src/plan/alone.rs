//! One node of a plan by itself, for a machine that is that node.

use super::{DeviceRef, Plan};

impl Plan {
    /// This plan for the node `name` alone: as written under `nodes`, or else made from `pool`, or from the only pool
    /// or the one called `default`. Workloads and faults of other nodes are left out.
    pub fn alone(mut self, name: &str, pool: Option<&str>) -> Result<Plan, String> {
        let at = self.nodes.iter().position(|node| &*node.name == name);
        let node = match (at, pool) {
            (Some(at), None) => self.nodes.swap_remove(at),
            (_, pool) => self.node_of_pool(name, pool)?,
        };
        self.nodes = vec![node];
        let here = |devices: &mut Vec<DeviceRef>| {
            devices.retain(|device| Some(device.node as usize) == at);
            for device in devices.iter_mut() {
                device.node = 0;
            }
            !devices.is_empty()
        };
        self.workloads
            .retain_mut(|workload| here(&mut workload.devices));
        self.faults.retain_mut(|fault| here(&mut fault.devices));
        Ok(self)
    }

    fn node_of_pool(&self, name: &str, wanted: Option<&str>) -> Result<super::NodePlan, String> {
        let names = || {
            let names: Vec<&str> = self.pools.iter().map(|pool| &*pool.name).collect();
            if names.is_empty() {
                "there are no pools".to_owned()
            } else {
                format!("there are pools {}", names.join(", "))
            }
        };
        let found = match wanted {
            Some(wanted) => self.pools.iter().find(|pool| &*pool.name == wanted),
            None if self.pools.len() == 1 => self.pools.first(),
            None => self.pools.iter().find(|pool| &*pool.name == "default"),
        };
        match (found, wanted) {
            (Some(pool), _) => Ok(pool.node(name)),
            (None, Some(wanted)) => Err(format!("there is no pool {wanted:?}; {}", names())),
            (None, None) => Err(format!(
                "there is no node {name:?}, and no pool to make it from: add it under `nodes`, or name a pool with \
                 --pool; {}",
                names()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use crate::config::{self, Defaults};

    const TEXT: &str = "\
pools:
  small: { model: tesla-t4, gpus: 1 }
  large: { model: h100-sxm5-80gb, gpus: 8 }
nodes:
  a: { pool: small }
  b: { pool: large }
workloads:
  - { name: one, devices: a/0, activity: [{ utilization: 10 }] }
  - { name: two, devices: b/3, activity: [{ utilization: 20 }] }
";

    fn plan() -> super::Plan {
        config::load(TEXT, "test.yaml", &Defaults::default())
            .unwrap()
            .plan
    }

    #[test]
    fn a_node_keeps_what_is_its_own() {
        let alone = plan().alone("b", None).unwrap();
        assert_eq!(alone.nodes.len(), 1);
        assert_eq!(&*alone.nodes[0].name, "b");
        assert_eq!(alone.workloads.len(), 1);
        assert_eq!(alone.workloads[0].name, "two");
        assert_eq!(alone.workloads[0].devices[0].node, 0);
        assert_eq!(alone.workloads[0].devices[0].gpu, 3);
    }

    #[test]
    fn an_unknown_node_is_made_from_a_pool() {
        let alone = plan().alone("c", Some("large")).unwrap();
        assert_eq!(alone.nodes[0].gpus.len(), 8);
        assert!(alone.workloads.is_empty());
        let message = plan().alone("c", None).unwrap_err();
        assert!(message.contains("--pool") && message.contains("small, large"));
        let message = plan().alone("c", Some("huge")).unwrap_err();
        assert!(message.contains("no pool \"huge\""));
    }
}
