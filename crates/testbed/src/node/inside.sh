# The first process inside a node's namespaces: lays the node's own folders over the machine's, then keeps the namespaces.
#
#   $1  the node's folder
#   $2  the folder of Kubernetes' programs
#   $3  how many NUMA nodes there are, 0: as many as the machine has

set -e
folder=$1 programs=$2 numa_nodes=$3

# /proc is still the machine's: it knows us by the number that others there know us by.
read -r pid _ </proc/self/stat
mount -t proc proc /proc

# Lays a file over a setting of the kernel. The kubelet wants these to have these values, and changes what has others; they
# are the whole machine's, so it finds them set and leaves them alone.
setting() {
    mkdir -p "$folder/settings/${1%/*}"
    echo "$2" >"$folder/settings/$1"
    mount --bind "$folder/settings/$1" "/proc/sys/$1"
}
setting vm/overcommit_memory 1
setting vm/panic_on_oom 0
setting kernel/panic 10
setting kernel/panic_on_oops 1
setting kernel/keys/root_maxkeys 1000000
setting kernel/keys/root_maxbytes 25000000

# NUMA nodes as sysfs shows them, with the machine's processors dealt out to them. The kubelet counts them there.
if [ "$numa_nodes" -gt 0 ]; then
    node=0
    while [ "$node" -lt "$numa_nodes" ]; do
        mkdir -p "$folder/numa/node$node/hugepages"
        echo "Node $node MemTotal: 4194304 kB" >"$folder/numa/node$node/meminfo"
        node=$((node + 1))
    done
    for cpu in /sys/devices/system/cpu/cpu[0-9]*; do
        number=${cpu##*cpu}
        ln -s "$cpu" "$folder/numa/node$((number % numa_nodes))/cpu$number"
    done
    mount --bind "$folder/numa" /sys/devices/system/node
fi

# Before what may cover the place where they lie.
mount --bind "$programs" "$folder/bin"
# Folders that the kubelet and containerd take as given. Whole trees, so that no mount point need be made on the machine.
mount --bind "$folder/run" /run
mount --bind "$folder/lib" /var/lib
mount --bind "$folder/log" /var/log

echo "$pid"
# Until the end of our input. Ignored, the end of a process without parents is the kernel's to clear away, which is a first
# process' work; the shell itself would not ignore it, and its `read` would end with it.
exec env --ignore-signal=CHLD cat
