//! The exporters of a process: whose text they speak, where they are served, and how they change
//! without a restart.
//!
//! | Module | What it is for |
//! |---|---|
//! | `args` | flags that change the text, under the names dcgm-exporter gives them |
//! | `spec` | `--identity NAME[=PATH\|:PORT]` |
//! | `clocks` | what clocks were held back by in the last minutes |
//! | `doubles` | series that several nodes have in common |
//! | `vacant` | pages that no GPU is on |
//! | `list` | where a field list comes from |
//! | `hot` | a compiled exporter that follows its files |
//! | `own` | what mirage says about itself: `/self/metrics` and `/health` |
//! | `role` | `mirage dcgm-exporter`: the exporter alone, over the state file of a running engine |
//!
//! A page is made by one compiled exporter from one snapshot, both taken at its start. A change of a field list or an
//! identity compiles a new one beside it, and only a good one takes its place: there is no moment without a page.

mod args;
mod clocks;
mod doubles;
mod flags;
mod hot;
mod list;
mod own;
mod role;
mod spec;
mod state;
mod vacant;

pub use args::{IdentityArgs, TextArgs};
pub use clocks::Clocks;
pub use hot::{Exporters, Hot, Mount, Recipe};
pub use list::List;
pub use own::{health, self_metrics};
pub use role::{Args, run, run_as_named};
pub use spec::{Place, Spec};
