//! What the list calls supported is so on some board of the catalogue.

#[path = "support/caller.rs"]
mod caller;
#[path = "support/list.rs"]
mod list;
#[path = "support/node.rs"]
mod node;
#[path = "support/object.rs"]
mod object;

use std::collections::BTreeSet;

use caller::{Buffers, Handles, Library, good, values, walks};
use list::Symbol;
use mirage_model::board::Vendor;
use mirage_model::catalogue;
use mirage_state::layout::{flags, text};
use mirage_state::{Image, NodeDir};

const NOT_SUPPORTED: u32 = 3;

#[test]
fn what_the_list_calls_supported_is_so_on_some_board() {
    let library = Library::open();
    let symbols = list::symbols();
    let mut answered = BTreeSet::new();
    let mut buffers = Buffers::new();
    let nvidia = |key: &&str| catalogue::board(key).is_some_and(|b| b.vendor == Vendor::Nvidia);
    for model in catalogue::keys().filter(nvidia) {
        let dir = tempfile::tempdir().expect("a directory");
        let mut image = node::idle(model, 2);
        node::start(&mut image, 0, 4242, "/usr/bin/train", None);
        image.lives[0].flags |= flags::ACCOUNTING;
        let is_cut = cut_the_second(&mut image);
        let mut writer = NodeDir::open(dir.path()).expect("the directory is ours");
        writer.publish(&image).expect("room for a state");
        node::see(&dir.path().join("state"));
        assert_eq!(library.call("nvmlInit_v2", &[]), 0);
        let handles = if is_cut {
            Handles::get(&library)
        } else {
            Handles::whole(&library)
        };
        for symbol in symbols.iter().filter(|symbol| walks(symbol)) {
            if answers(&library, symbol, &handles, &mut buffers) {
                answered.insert(symbol.name.clone());
            }
        }
        assert_eq!(library.call("nvmlShutdown", &[]), 0);
    }
    let silent: Vec<&str> = symbols
        .iter()
        .filter(|symbol| walks(symbol) && symbol.call != "-" && !answered.contains(&symbol.name))
        .map(|symbol| symbol.name.as_str())
        .collect();
    assert!(
        silent.is_empty(),
        "said to be answered, and no board of the catalogue does: {silent:?}"
    );
}

/// Cuts the second GPU into two instances of its smallest profile, where the board can be cut.
fn cut_the_second(image: &mut Image) -> bool {
    let board = &image.statics.boards[image.cards[1].board as usize];
    let profiles = image.statics.gpu_profiles.iter();
    let mut mine = profiles
        .skip(board.gpu_profile_first as usize)
        .take(board.gpu_profile_count as usize);
    let Some(smallest) = mine.find(|profile| profile.max_instances >= 2) else {
        return false;
    };
    let name = text(&smallest.name).to_owned();
    let mut starts = (0..64).filter(|start| smallest.placements >> start & 1 != 0);
    let (first, second) = (starts.next(), starts.next());
    node::enable_mig(image, 1);
    for (gi, start) in [(1, first), (2, second)] {
        node::cut(image, 1, &name, gi, start.expect("two fit"), gi - 1);
    }
    true
}

/// Whether a function does not answer that it is not supported: to a GPU, to one in MIG mode, or to a MIG device.
fn answers(library: &Library, symbol: &Symbol, handles: &Handles, buffers: &mut Buffers) -> bool {
    let devices = ["dev", "card", "any", "anycard"];
    let is_device = |word: &str| devices.contains(&word);
    for device in [handles.gpu, handles.cut, handles.mig] {
        let mut args = good(symbol, handles, buffers);
        for arg in args.iter_mut().filter(|arg| is_device(&arg.word)) {
            arg.value = device;
        }
        // What is not there on this node, and what takes no MIG device, would be refused for that.
        let is_handle = |word: &str| is_device(word) || ["gi", "ci"].contains(&word);
        let refused = args.iter().any(|arg| {
            let is_mig = device == handles.mig && ["dev", "card"].contains(&arg.word.as_str());
            is_handle(&arg.word) && (arg.value == 0 || is_mig)
        });
        if !refused && library.call(&symbol.name, &values(&args)) != NOT_SUPPORTED {
            return true;
        }
    }
    false
}
