//! Everything that talks to Kubernetes or a container runtime.
//!
//! | Module | What it is for |
//! |---|---|
//! | [`cluster`] | the API server: this node's pods, Events about them, labels and conditions of the node |
//! | [`activity`] | what a pod does with its GPUs, by its annotations and labels |
//! | [`usage`] | which container keeps which device busy, and how |
//! | [`gfd`] | node labels as GPU Feature Discovery writes them |
//! | [`authority`] | letting Go clients, who call a socket by its path, talk to our servers |
//! | [`deviceplugin`] | telling a kubelet which devices the node has, and giving them to containers |
//! | [`podresources`] | asking a kubelet which container was given which device |
//! | [`podlist`] | reading the same from a file that a runtime hook keeps |
//! | [`nri`] | being a plugin of a container runtime |
//! | [`koordinator`] | reading which GPUs a cluster's scheduler gave a pod |
//! | [`device`] | what the device ids in such answers mean |
//! | [`claims`] | such answers laid over a node's state, so that every surface shows them |
//! | [`allocate`] | which device each container has, where no kubelet decides it |
//! | [`controller`] | the cluster: nodes without a kubelet, their pods, and the topology's documents |
//! | [`flavour`] | the cloud a node looks like |
//! | [`inference`] | how many requests inference pods serve, as a Prometheus knows it |
//! | [`migconfig`] | MIG layouts that a cluster asks for, and the answers |
//! | [`topology`] | which GPUs nodes have and which pod uses which, as ConfigMaps carry it |
//!
//! Answers come from other programs: names are checked, counts and sizes are bounded, and what cannot be read
//! is left out and counted, never passed on.

#![forbid(unsafe_code)]

pub mod activity;
pub mod allocate;
pub mod authority;
pub mod claims;
pub mod cluster;
pub mod controller;
pub mod device;
pub mod deviceplugin;
mod error;
pub mod flavour;
pub mod gfd;
pub mod inference;
pub mod koordinator;
pub mod migconfig;
pub mod nri;
pub mod podlist;
pub mod podresources;
pub mod topology;
pub mod usage;

pub use claims::{Allocation, Claim, Claims, Grant, Holder, IdType, PodFacts};
pub use error::{Error, Result};
