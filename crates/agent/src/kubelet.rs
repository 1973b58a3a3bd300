//! kubelet's protocols: the device plugin's, both sides, and the listing of pod resources.

/// The device plugin protocol, `v1beta1`.
#[expect(missing_docs, reason = "generated from proto/deviceplugin_v1beta1.proto")]
pub mod deviceplugin {
    tonic::include_proto!("v1beta1");
}

/// Which devices kubelet has given to which containers, `v1`.
#[expect(missing_docs, reason = "generated from proto/podresources_v1.proto")]
pub mod podresources {
    tonic::include_proto!("v1");
}
