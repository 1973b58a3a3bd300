//! The node's container runtime.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::net::UnixDatagram;
use tokio::time::timeout;

use super::programs::Programs;
use super::surroundings::Surroundings;
use super::{IMAGE, NodeError, image};
use crate::control_plane::ControlPlaneError;
use crate::control_plane::error::write;
use crate::control_plane::process::Program;

const NAME: &str = "containerd";
/// How long it has: on idle cores it needs a fraction of a second; a busy machine is no error.
const PATIENCE: Duration = Duration::from_secs(120);
/// Where it listens, as seen inside.
pub(super) const SOCKET: &str = "/run/containerd/containerd.sock";

/// A running containerd.
#[derive(Debug)]
pub(super) struct Containerd {
    pub(super) program: Program,
    ctr: PathBuf,
    socket: PathBuf,
}

impl Containerd {
    /// Starts it and gives it the image.
    pub(super) async fn start(surroundings: &Surroundings, programs: &Programs) -> Result<Self, NodeError> {
        let folder = surroundings.folder();
        let networks = folder.join("cni");
        // One network, so that the node counts as ready. Pods are in the machine's own, and its plugin is never called.
        write(&networks.join("loopback.conf"), r#"{"cniVersion":"0.4.0","name":"loopback","type":"loopback"}"#)?;
        let config = folder.join("containerd.toml");
        write(&config, &configuration(&networks))?;

        // The same path inside and outside.
        let notices = folder.join("containerd.notices");
        let socket = UnixDatagram::bind(&notices)
            .map_err(ControlPlaneError::system(format!("could not make the socket {}", notices.display())))?;
        let mut command = std::process::Command::new(&programs.containerd);
        command.args([OsStr::new("--config"), config.as_os_str()]).env("NOTIFY_SOCKET", &notices);
        command.env("PATH", &programs.path).env("TMPDIR", folder.join("tmp"));
        let mut program = Program::start_by(|command| surroundings.spawn(command), NAME, command, folder)?;
        until_ready(&mut program, &socket).await?;

        let containerd = Self {
            program,
            ctr: programs.ctr.clone(),
            // As seen outside.
            socket: folder.join(SOCKET.trim_start_matches('/')),
        };
        let archive = folder.join("tmp/image.tar");
        image::write(&archive, &programs.busybox)?;
        let archive = archive.to_str().expect("a temporary folder of ours is UTF-8");
        containerd.ctr(&["images", "import", archive]).await?;
        Ok(containerd)
    }

    /// What `ctr` prints when asked in the namespace of Kubernetes' containers.
    pub(super) async fn ctr(&self, args: &[&str]) -> Result<String, NodeError> {
        let mut command = tokio::process::Command::new(&self.ctr);
        command.arg("--address").arg(&self.socket).args(["--namespace", "k8s.io"]).args(args);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let failed = ControlPlaneError::system(format!("could not run {}", self.ctr.display()));
        let output = command.output().await.map_err(failed)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        Err(NodeError::Ctr { command: args.join(" "), status: output.status, said })
    }
}

/// Returns when containerd says that it serves, as it does to systemd.
async fn until_ready(program: &mut Program, notices: &UnixDatagram) -> Result<(), NodeError> {
    let mut said = String::from("none");
    let ready = async {
        let mut notice = [0; 512];
        loop {
            let length = notices.recv(&mut notice).await?;
            said = String::from_utf8_lossy(&notice[..length]).into_owned();
            if said.lines().any(|line| line == "READY=1") {
                return Ok::<(), std::io::Error>(());
            }
        }
    };
    let outcome = tokio::select! {
        ready = timeout(PATIENCE, ready) => ready,
        // That it has ended is said by the check below.
        ended = program.wait() => { ended?; Ok(Ok(())) }
    };
    program.check()?;
    match outcome {
        Ok(read) => Ok(read.map_err(ControlPlaneError::system("could not read what containerd says"))?),
        Err(_) => {
            let log = program.end_of_log();
            Err(ControlPlaneError::NotReady { program: NAME, patience: PATIENCE, answer: said, log }.into())
        }
    }
}

/// Its folders are those that it takes by itself: inside, they are the node's own.
fn configuration(networks: &Path) -> String {
    let networks = networks.display();
    format!(
        r#"version = 2

[grpc]
  address = "{SOCKET}"

[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{IMAGE}"
  stream_server_address = "127.0.0.1"
  # Containers ask for less likely ends than ours, which not every machine lets root grant.
  restrict_oom_score_adj = true

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{networks}"
    conf_dir = "{networks}"

  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"#
    )
}
