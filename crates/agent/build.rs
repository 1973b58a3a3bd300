//! Compiles kubelet's protocols.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let protos = ["proto/deviceplugin_v1beta1.proto", "proto/podresources_v1.proto"];
    for proto in protos {
        println!("cargo:rerun-if-changed={proto}");
    }
    let descriptors = protox::compile(protos, ["proto"])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
