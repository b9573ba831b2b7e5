//! MIG layouts: profiles the board has, placed as the driver would place them.

use crate::board::Board;
use crate::config::form::{Entry, Parsed};
use crate::mig::{Geometry, Placed, name::canonical};
use crate::plan::GivenInstance;
use crate::quantity::clip;
use crate::yaml::{Problem, Span};

/// Reads a list of MIG devices for a board; problems where the board has no such layout.
pub(super) fn read(
    entry: &Entry<'_>,
    board: &Board,
    problems: &mut Vec<Problem>,
) -> Option<Vec<GivenInstance>> {
    let Parsed::List(items) = &entry.value else {
        return None;
    };
    let wanted: Vec<(GivenInstance, Span)> = items.iter().filter_map(instance).collect();
    let checked = check(&wanted, board, entry.span);
    match checked {
        Ok(()) => Some(wanted.into_iter().map(|(instance, _)| instance).collect()),
        Err(problem) => {
            problems.push(problem);
            None
        }
    }
}

fn instance(entry: &Entry<'_>) -> Option<(GivenInstance, Span)> {
    let (profile, start, uuid, span) = match &entry.value {
        Parsed::Text(profile) => (*profile, None, None, entry.span),
        Parsed::Form(form) => (
            form.text("profile")?,
            form.integer("start")
                .and_then(|start| u32::try_from(start).ok()),
            form.text("id").map(Into::into),
            form.get("profile")?.span,
        ),
        _ => return None,
    };
    let instance = GivenInstance {
        profile: canonical(profile).into_owned(),
        start,
        uuid,
    };
    Some((instance, span))
}

/// Whether the board can be cut like this, in this order.
pub(in crate::config) fn check(
    wanted: &[(GivenInstance, Span)],
    board: &Board,
    at: Span,
) -> Result<(), Problem> {
    let Some(geometry) = &board.mig else {
        let message = format!("`{}` cannot do MIG", board.key);
        return Err(Problem::new(at, message).help("remove `mig` or choose another model"));
    };
    let mut placed = Vec::new();
    for (instance, span) in wanted {
        let name = &instance.profile;
        let Some(profile) = geometry.profile_by_name(name) else {
            let message = format!("`{}` has no MIG profile `{}`", board.key, clip(name));
            let help = format!("it has {}", profiles(geometry));
            return Err(Problem::new(*span, message).help(help));
        };
        let free = geometry.possible_placements(&placed, profile);
        let start = match instance.start {
            None => geometry.place(&placed, profile),
            Some(start) if free.contains(&start) => Some(start),
            Some(start) => {
                let message = format!("`{name}` cannot start at slice {start} here");
                let problem = Problem::new(*span, message);
                return Err(match free.as_slice() {
                    [] => problem.help("there is no room left for it"),
                    free => {
                        let free: Vec<String> = free.iter().map(u32::to_string).collect();
                        problem.help(format!("free starts are {}", free.join(", ")))
                    }
                });
            }
        };
        let Some(start) = start else {
            let message = format!("no room for another `{name}` on this GPU");
            let help = "remove an instance or choose smaller profiles";
            return Err(Problem::new(*span, message).help(help));
        };
        placed.push(Placed {
            profile_id: profile.id,
            start,
        });
    }
    Ok(())
}

fn profiles(geometry: &Geometry) -> String {
    let names: Vec<String> = geometry
        .profiles
        .iter()
        .map(|profile| format!("`{}`", profile.name))
        .collect();
    names.join(", ")
}
