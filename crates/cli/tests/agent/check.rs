//! `gpu-scheduler agent --check`: what `make gpu-check` shows of a machine's own cards.

use std::process::{Command, Output};

use gpu_scheduler_nvml_mock::Installation;

use super::bed::{BINARY, shipped};

/// Runs it on one of the shipped nodes.
fn check(cards: &str, more: &[&str]) -> Output {
    let installation = Installation::new(&shipped(cards)).unwrap();
    let roots = tempfile::tempdir().unwrap();
    let (sysfs, procfs) = (roots.path().join("sys"), roots.path().join("proc"));
    installation.write_roots(&sysfs, &procfs).unwrap();
    let mut command = Command::new(BINARY);
    command.args(["agent", "--check", "--node-name", "n1"]).args(more);
    command.arg("--nvml").arg(installation.library()).arg("--sysfs").arg(sysfs).arg("--procfs").arg(procfs);
    command.output().unwrap()
}

#[test]
fn every_shipped_node_can_be_checked() {
    for (cards, more, expected) in [
        (
            "8xA100-80GB-SXM",
            &[][..],
            &["gpu.count=8", "nvidia.com/gpu: 8 of 8 healthy", "nvidia.com/gpu.shared: 384 of 384"][..],
        ),
        ("8xH100", &[], &["gpu.product=NVIDIA-H100", "DCGM"]),
        ("4xA10", &[], &["gpu.count=4", "NVIDIA_VISIBLE_DEVICES=GPU-"]),
        ("2xT4", &[], &["gpu.count=2"]),
        ("1xA30", &[], &["gpu.count=1"]),
        (
            "A100-mixed-mig",
            &["--mig-strategy", "mixed"],
            &["nvidia.com/mig-1g.5gb: 7 of 7", "NVIDIA_VISIBLE_DEVICES=MIG-"],
        ),
    ] {
        let output = check(cards, more);
        let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{cards}: {errors}");
        for part in expected {
            assert!(text.contains(part), "{cards}: no {part:?} in\n{text}");
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    let output = check("A100-mixed-mig", &["--mig-strategy", "single"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("migStrategy single needs MIG"), "{errors}");
    let missing =
        Command::new(BINARY).args(["agent", "--check", "--node-name", "n1", "--nvml", "/nowhere.so"]).output().unwrap();
    let errors = String::from_utf8_lossy(&missing.stderr);
    assert!(!missing.status.success() && errors.contains("/nowhere.so"), "{errors}");
}
