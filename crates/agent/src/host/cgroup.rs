//! The pod and container of a process, from `/proc/PID/cgroup`.
//!
//! Version 1 has a line for each controller, version 2 one line. The way to a container is
//!
//! | driver | path |
//! |---|---|
//! | cgroupfs | `/kubepods/burstable/pod<uid>/<id>` |
//! | systemd | `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid with _>.slice/<runtime>-<id>.scope` |
//! | systemd's names without systemd | `/system.slice/containerd.service/kubepods-pod<uid with _>.slice:cri-containerd:<id>` |
//!
//! with whatever above (kubelet's own root) and below (groups that a container makes for itself). Seen from a namespace
//! of the agent's own, the front is cut off: `/../../pod<uid>/<id>`.

/// Whose a process is, as far as its control group says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerRef {
    /// UID of the pod. Of a static pod it is the one kubelet made up, which the API server does not know.
    pub pod_uid: Option<String>,
    /// The runtime's id of the container, without its scheme.
    pub container_id: Option<String>,
}

/// Reads the text of `/proc/PID/cgroup`; `None` for a process in no container.
pub fn read_cgroup(text: &str) -> Option<ContainerRef> {
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let found = paths.filter_map(read_path);
    // Controllers of version 1 may lie elsewhere; the line that says most counts.
    found.max_by_key(|found| (found.container_id.is_some(), found.pod_uid.is_some()))
}

fn read_path(path: &str) -> Option<ContainerRef> {
    let mut pod_uid = None;
    let mut container_id = None;
    for part in path.split('/').flat_map(|part| part.split(':')) {
        match pod(part) {
            // What comes before a pod is not in it.
            Some(uid) => (pod_uid, container_id) = (Some(uid), None),
            None => container_id = container_id.or_else(|| container(part)),
        }
    }
    (pod_uid.is_some() || container_id.is_some()).then_some(ContainerRef { pod_uid, container_id })
}

/// `pod<uid>`, or `…-pod<uid with underscores>.slice`.
fn pod(part: &str) -> Option<String> {
    let text = match part.strip_suffix(".slice") {
        Some(slice) => slice.rsplit_once("-pod")?.1,
        None => part.strip_prefix("pod")?,
    };
    let uid = text.replace('_', "-");
    is_uid(&uid).then_some(uid)
}

/// A UUID, or the hash that names a static pod.
fn is_uid(text: &str) -> bool {
    let hex = |part: &str, len| part.len() == len && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    hex(text, 32) || {
        let parts: Vec<&str> = text.split('-').collect();
        parts.len() == 5 && parts.into_iter().zip([8, 4, 4, 4, 12]).all(|(part, len)| hex(part, len))
    }
}

/// `<id>`, `<runtime>-<id>` or `<runtime>-<id>.scope`; ids have 64 hexadecimal digits.
fn container(part: &str) -> Option<String> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    let id = match part.rsplit_once('-') {
        // CRI-O's monitor of a container is not the container.
        Some(("crio-conmon", _)) => return None,
        Some((_, id)) => id,
        None => part,
    };
    (id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "11111111-2222-3333-4444-555555555555";
    const SLICE: &str = "11111111_2222_3333_4444_555555555555";
    const HASH: &str = "8f14e45fceea167a5a36dedd4bea2543";

    #[test]
    fn paths() {
        let both = Some((Some(UID), Some(ID)));
        for (text, expected) in [
            (format!("0::/kubepods/burstable/pod{UID}/{ID}\n"), both),
            (format!("0::/kubepods/pod{UID}/{ID}\n"), both),
            (format!("0::/kubepods/besteffort/pod{UID}/crio-{ID}\n"), both),
            (format!("0::/kubepods.slice/kubepods-pod{SLICE}.slice/cri-containerd-{ID}.scope\n"), both),
            (
                format!(
                    "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE}.slice/docker-{ID}.scope"
                ),
                both,
            ),
            (format!("0::/kubepods.slice/kubepods-pod{SLICE}.slice/crio-{ID}.scope/container\n"), both),
            (format!("0::/kubepods.slice/kubepods-pod{SLICE}.slice/crio-{ID}.scope/init.scope\n"), both),
            (
                format!(
                    "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{SLICE}.slice/cri-containerd-{ID}.scope"
                ),
                both,
            ),
            (format!("0::/system.slice/containerd.service/kubepods-pod{SLICE}.slice:cri-containerd:{ID}\n"), both),
            (
                format!("12:memory:/kubepods/pod{UID}/{ID}\n11:devices:/kubepods/pod{UID}/{ID}\n1:name=systemd:/x\n"),
                both,
            ),
            (
                format!(
                    "12:memory:/user.slice\n1:name=systemd:/kubepods.slice/kubepods-pod{SLICE}.slice/docker-{ID}.scope"
                ),
                both,
            ),
            (format!("0::/../../pod{UID}/{ID}\n"), both),
            (format!("0::/../../kubepods-burstable-pod{SLICE}.slice/cri-containerd-{ID}.scope\n"), both),
            (format!("0::/../cri-containerd-{ID}.scope\n"), Some((None, Some(ID)))),
            (format!("0::/kubepods/burstable/pod{UID}\n"), Some((Some(UID), None))),
            (format!("0::/kubepods/burstable/pod{HASH}/{ID}\n"), Some((Some(HASH), Some(ID)))),
            (
                format!("0::/docker/{ID}/kubepods/pod{UID}/{}\n", "f".repeat(64)),
                Some((Some(UID), Some(&"f".repeat(64)))),
            ),
            (format!("0::/system.slice/docker-{ID}.scope\n"), Some((None, Some(ID)))),
            (format!("0::/kubepods.slice/kubepods-pod{SLICE}.slice/crio-conmon-{ID}.scope\n"), Some((Some(UID), None))),
            ("0::/user.slice/user-0.slice/session-1.scope\n".to_owned(), None),
            ("0::/\n".to_owned(), None),
            ("0::/podman/podcast\n".to_owned(), None),
            (format!("0::/kubepods/pod{}/x\n", &UID[1..]), None),
            ("nonsense".to_owned(), None),
            (String::new(), None),
        ] {
            let expected = expected.map(|(pod, container): (Option<&str>, Option<&str>)| ContainerRef {
                pod_uid: pod.map(str::to_owned),
                container_id: container.map(str::to_owned),
            });
            assert_eq!(read_cgroup(&text), expected, "{text}");
        }
    }
}
