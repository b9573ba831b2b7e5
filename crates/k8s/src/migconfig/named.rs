//! Layouts by name, as the `nvidia.com/mig.config` label has them: the names of mig-parted's usual configuration, worked out from the
//! board's own tables rather than listed for each model.

use mirage_model::board::Board;
use mirage_model::mig::{Geometry, GpuProfile};

use super::{Cut, Layout, Wanted};
use crate::{Error, Result};

/// `all-disabled`, `all-enabled`, `all-balanced` and `all-<profile>`.
pub fn named(name: &str, board: &Board) -> Result<Layout> {
    let refuse = |why: String| Error::Mig {
        board: board.key.clone(),
        why,
    };
    let cut = |enabled, devices| Layout {
        all: Some(Cut { enabled, devices }),
        ..Layout::default()
    };
    if name == "all-disabled" {
        return Ok(cut(false, Vec::new()));
    }
    let Some(geometry) = &board.mig else {
        return Err(refuse("it cannot do MIG".into()));
    };
    match name.strip_prefix("all-") {
        Some("enabled") => Ok(cut(true, Vec::new())),
        Some("balanced") => Ok(cut(true, balanced(geometry))),
        Some(profile) => {
            let Some(profile) = geometry.profile_by_name(profile) else {
                let profile = crate::error::printable(profile);
                return Err(refuse(format!("it has no profile `{profile}`")));
            };
            let most = geometry.remaining_capacity(&[], profile);
            let devices = (0..most).map(|_| wanted(profile)).collect();
            Ok(cut(true, devices))
        }
        None => {
            let name = crate::error::printable(name);
            Err(refuse(format!(
                "there is no layout `{name}`; write all-disabled, all-enabled, all-balanced or all-PROFILE"
            )))
        }
    }
}

/// Two of one slice, one of two and, where there is room, one of three: the smallest in memory of each.
fn balanced(geometry: &Geometry) -> Vec<Wanted> {
    let of = |slices| {
        let profiles = geometry.profiles.iter();
        let plain =
            profiles.filter(|profile| profile.slices == slices && profile.attributes().is_empty());
        plain.min_by_key(|profile| profile.memory_mib)
    };
    // The large ones first, or the small ones would be in their way.
    let order = [of(3), of(2), of(1), of(1)];
    order.into_iter().flatten().map(wanted).collect()
}

fn wanted(profile: &GpuProfile) -> Wanted {
    Wanted {
        profile: profile.name.clone(),
        position: None,
    }
}
