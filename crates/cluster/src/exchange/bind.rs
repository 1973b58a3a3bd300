//! Binds, and the question where a pod is.

use gpu_scheduler_engine::model::{PodName, PodUid};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::call::{Answer, Call, NoAnswer, pod_path, says_nothing};
use crate::allocation;
use crate::driver::{BindAnswer, BindOrder, ReadAnswer};

#[derive(Deserialize)]
struct Located {
    metadata: LocatedMeta,
    #[serde(default)]
    spec: LocatedSpec,
}

#[derive(Deserialize)]
struct LocatedMeta {
    #[serde(default)]
    uid: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct LocatedSpec {
    node_name: String,
}

/// A bind: node name and record are one write, and the UID its precondition.
pub fn bind_call(order: &BindOrder) -> Call {
    let mut metadata = json!({"name": &*order.pod.name, "namespace": &*order.pod.namespace, "uid": &*order.uid.0});
    if let Some(record) = &order.record {
        metadata["annotations"] = json!({ (allocation::ANNOTATION): record });
    }
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": &*order.node},
    });
    let path = format!("{}/binding", pod_path(&order.pod));
    Call { method: Method::POST, path, content: "application/json", body: binding }
}

/// What the answer to a bind means.
pub fn bind_answer(answer: Result<Answer, NoAnswer>) -> BindAnswer {
    match answer {
        Ok(answer) if answer.code.is_success() => BindAnswer::Done,
        #[cfg(feature = "planted-bugs")]
        Ok(answer)
            if answer.code == StatusCode::CONFLICT
                && crate::planted::is_planted(crate::planted::Bug::ConflictIsSuccess) =>
        {
            BindAnswer::Done
        }
        Ok(answer) if answer.code == StatusCode::CONFLICT => BindAnswer::Conflict(answer.why()),
        Ok(answer) if says_nothing(answer.code) => BindAnswer::Unknown(answer.why()),
        Ok(answer) => BindAnswer::Refused(answer.why()),
        Err(NoAnswer::Deposed) => BindAnswer::Deposed,
        Err(NoAnswer::Unknown(why)) => BindAnswer::Unknown(why),
    }
}

/// The question where a pod is, by a consistent read.
pub fn read_call(pod: &PodName) -> Call {
    Call::get(pod_path(pod))
}

/// What the answer to it means for the pod of this UID.
pub fn read_answer(uid: &PodUid, answer: Result<Answer, NoAnswer>) -> ReadAnswer {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return ReadAnswer::Unknown(error.to_string()),
    };
    match (answer.code, serde_json::from_slice::<Located>(&answer.body)) {
        (StatusCode::NOT_FOUND, _) => ReadAnswer::Gone,
        (StatusCode::OK, Ok(found)) if found.metadata.uid != *uid.0 => ReadAnswer::Gone,
        (StatusCode::OK, Ok(found)) if found.spec.node_name.is_empty() => ReadAnswer::Unbound,
        (StatusCode::OK, Ok(found)) => ReadAnswer::On(found.spec.node_name),
        (StatusCode::OK, Err(error)) => ReadAnswer::Unknown(error.to_string()),
        _ => ReadAnswer::Unknown(answer.why()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn answer(code: u16, body: &Value) -> Result<Answer, NoAnswer> {
        Ok(Answer { code: StatusCode::from_u16(code).expect("a status"), body: body.to_string().into_bytes() })
    }

    #[test]
    fn what_an_answer_to_a_bind_leaves_open_is_unknown() {
        let why = || "because".to_owned();
        let status = json!({"message": "because"});
        for (answer, expected) in [
            (answer(201, &json!({})), BindAnswer::Done),
            (answer(409, &status), BindAnswer::Conflict(why())),
            (answer(403, &status), BindAnswer::Refused(why())),
            (answer(404, &status), BindAnswer::Refused(why())),
            (answer(408, &status), BindAnswer::Unknown(why())),
            (answer(429, &status), BindAnswer::Unknown(why())),
            (answer(500, &status), BindAnswer::Unknown(why())),
            (answer(504, &status), BindAnswer::Unknown(why())),
            (Err(NoAnswer::Unknown(why())), BindAnswer::Unknown(why())),
            (Err(NoAnswer::Deposed), BindAnswer::Deposed),
        ] {
            assert_eq!(bind_answer(answer.clone()), expected, "{answer:?}");
        }
    }

    #[test]
    fn a_pod_of_the_name_with_another_uid_is_another_pod() {
        let pod = |uid: &str, node: &str| json!({"metadata": {"uid": uid}, "spec": {"nodeName": node}});
        for (answer, expected) in [
            (answer(200, &pod("u", "n1")), ReadAnswer::On("n1".to_owned())),
            (answer(200, &pod("u", "")), ReadAnswer::Unbound),
            (answer(200, &pod("v", "n1")), ReadAnswer::Gone),
            (answer(404, &json!({})), ReadAnswer::Gone),
            (answer(503, &json!({"message": "busy"})), ReadAnswer::Unknown("busy".to_owned())),
        ] {
            assert_eq!(read_answer(&PodUid::from("u"), answer.clone()), expected, "{answer:?}");
        }
    }
}
