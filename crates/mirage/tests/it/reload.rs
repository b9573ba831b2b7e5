//! Hot reload: good files are laid over the running fleet, bad ones leave it alone.

use crate::support::{STILL, Up, wait_for};

#[test]
fn a_changed_file_is_laid_over_the_running_fleet() {
    let up = Up::with_config(STILL, &[]);
    up.ctl_ok(&["fault", "inject", "ecc=corrected", "--device", "node-a/2"]);
    let uuid = |gpus: &serde_json::Value| gpus[0]["uuid"].clone();
    let before = up.json("/api/v1/gpus");
    let faults = up.json("/api/v1/faults");

    let grown = STILL.replace("gpus: 2 }", "gpus: 3 }\n  node-c: { model: t4, gpus: 1 }");
    up.rewrite_config(&grown);
    up.wait_until_told("loaded: GPUs 6 kept, 2 added, 0 removed");
    let after = up.json("/api/v1/gpus");
    assert_eq!(after.as_array().unwrap().len(), 8);
    assert_eq!(uuid(&before), uuid(&after));
    assert_eq!(up.json("/api/v1/faults"), faults);
    assert!(up.state_dir().join("node-c/state").is_file());
    assert!(up.page("/nodes/node-c/metrics").contains("Tesla T4"));

    up.rewrite_config(STILL);
    up.wait_until_told("loaded: GPUs 6 kept, 0 added, 2 removed");
    assert_eq!(up.get("/nodes/node-c/metrics").status, 404);
    assert!(!up.state_dir().join("node-c").exists());
}

#[test]
fn a_bad_file_leaves_the_old_config_in_force() {
    let up = Up::with_config(STILL, &[]);
    up.rewrite_config("nodes:\n  node-a: { modle: t4 }\n");
    up.wait_until_told("the old config stays in force");
    assert!(up.told().contains("did you mean `model`?"), "{}", up.told());
    assert_eq!(up.json("/api/v1/gpus").as_array().unwrap().len(), 6);

    // And a good one after it is taken.
    up.rewrite_config("nodes:\n  node-a: { model: t4, gpus: 1 }\n");
    up.wait_until_told("1 added");
    wait_for("one GPU", || {
        let gpus = up.json("/api/v1/gpus");
        (gpus.as_array()?.len() == 1).then_some(())
    });
}

#[test]
fn sighup_reloads_even_an_unchanged_file() {
    let up = Up::with_config(STILL, &[]);
    up.signal("HUP");
    up.wait_until_told("loaded: GPUs 6 kept, 0 added, 0 removed");

    let without = Up::start(&["--gpus", "1"]);
    without.signal("HUP");
    without.wait_until_told("there is no config file to reload");
    assert_eq!(without.page("/health"), "OK");
}
