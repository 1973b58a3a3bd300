//! The image that containers of a real node run, made of the machine's static busybox: no registry is asked for anything.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use ring::digest::{SHA256, digest};
use serde_json::json;
use tar::{Builder, EntryType, Header};

use crate::control_plane::ControlPlaneError;

/// The image's name: busybox with a shell and the usual tools.
///
/// Without a command it runs until it is asked to end, and then ends at once; from the moment at which it writes `ready`.
pub const IMAGE: &str = "localhost/gpu-scheduler-testbed:1";

/// Commands of busybox that a pod of a test may want; each is a link in `/bin`.
const COMMANDS: [&str; 14] =
    ["cat", "chmod", "echo", "env", "false", "grep", "ls", "mkdir", "mknod", "rm", "sh", "sleep", "stat", "true"];

/// A first process takes no notice of a signal that it has no handler for, so somebody must wait for SIGTERM, or every
/// pod would use up its grace period.
const DEFAULT_COMMAND: [&str; 3] = ["/bin/sh", "-c", "trap 'exit 0' TERM; echo ready; sleep 2147483647 & wait"];

/// Writes the image as an archive of the kind that `docker save` makes and `ctr images import` reads.
pub(super) fn write(archive: &Path, busybox: &Path) -> Result<(), ControlPlaneError> {
    let make = || -> io::Result<()> {
        let layer = layer(&fs::read(busybox)?)?;
        let config = config(&layer).to_string();
        let manifest = json!([{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]).to_string();
        let mut image = Builder::new(File::create(archive)?);
        for (name, content) in
            [("manifest.json", manifest.as_bytes()), ("config.json", config.as_bytes()), ("layer.tar", &layer)]
        {
            append(&mut image, name, 0o644, content)?;
        }
        image.into_inner()?.sync_data()
    };
    make().map_err(ControlPlaneError::system(format!(
        "could not make the image {} of {}",
        archive.display(),
        busybox.display()
    )))
}

/// The image's only layer.
fn layer(busybox: &[u8]) -> io::Result<Vec<u8>> {
    let mut layer = Builder::new(Vec::new());
    for (folder, mode) in [("bin/", 0o755), ("tmp/", 0o1777)] {
        layer.append_data(&mut header(EntryType::Directory, mode, 0), folder, io::empty())?;
    }
    append(&mut layer, "bin/busybox", 0o755, busybox)?;
    for command in COMMANDS {
        layer.append_link(&mut header(EntryType::Symlink, 0o777, 0), format!("bin/{command}"), "busybox")?;
    }
    layer.into_inner()
}

/// What the image says of itself.
fn config(layer: &[u8]) -> serde_json::Value {
    let digest = digest(&SHA256, layer);
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json!({
        "architecture": architecture,
        "os": "linux",
        "config": {"Cmd": DEFAULT_COMMAND, "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{hex}")]},
    })
}

fn append(archive: &mut Builder<impl io::Write>, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
    let mut header = header(EntryType::Regular, mode, content.len() as u64);
    archive.append_data(&mut header, name, content)
}

/// Root's, and of no time, so that one busybox gives one image.
fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use tar::Archive;

    #[test]
    fn the_config_names_the_digest_of_the_layer() {
        // The digest of nothing is a figure of FIPS 180's examples.
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(config(b"")["rootfs"]["diff_ids"], json!([empty]));
    }

    #[test]
    fn the_archive_has_a_layer_with_busybox_and_its_commands() {
        let folder = tempfile::tempdir().unwrap();
        let (busybox, archive) = (folder.path().join("busybox"), folder.path().join("image.tar"));
        fs::write(&busybox, "a program").unwrap();
        write(&archive, &busybox).unwrap();

        let mut layer = Vec::new();
        for entry in Archive::new(File::open(&archive).unwrap()).entries().unwrap() {
            let mut entry = entry.unwrap();
            if entry.path().unwrap().to_str() == Some("layer.tar") {
                entry.read_to_end(&mut layer).unwrap();
            }
        }
        let mut shells = 0;
        for entry in Archive::new(layer.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let (path, mode) = (entry.path().unwrap().into_owned(), entry.header().mode().unwrap());
            match path.to_str().unwrap() {
                "bin/busybox" => {
                    let mut text = String::new();
                    entry.read_to_string(&mut text).unwrap();
                    assert_eq!((&*text, mode), ("a program", 0o755));
                }
                "bin/sh" => {
                    assert_eq!(entry.link_name().unwrap().unwrap().to_str(), Some("busybox"));
                    shells += 1;
                }
                _ => {}
            }
        }
        assert_eq!(shells, 1);
    }
}
