# Keeps the surroundings of one node: makes them, waits until its standard input is closed, which the kernel does for us
# when we are killed, and takes them away again.
#
#   $1  the node's folder; its last part names the node's control groups
#   $2  the folder of Kubernetes' programs
#   $3  what runs inside, as the first process
#   $4  how many NUMA nodes there are inside, 0: as many as the machine has
#
# Prints the process id of that first process, as it is seen from here, once all is in place.

folder=$1 programs=$2 inside=$3 numa_nodes=$4
group=${folder##*/}

hierarchies() {
    while read -r _ at type _; do
        case $type in cgroup | cgroup2) printf '%s\n' "$at" ;; esac
    done </proc/self/mounts
}

# Of version 2 only: without these no group below the root has what the kubelet looks for.
delegate() {
    local controllers controller
    [ -e "$1/cgroup.controllers" ] || return 0
    read -r controllers <"$1/cgroup.controllers" || return 0
    for controller in $controllers; do
        case $controller in cpu | cpuset | memory | hugetlb | pids) echo "+$controller" >"$1/cgroup.subtree_control" || return ;; esac
    done
}

make_groups() {
    local at
    for at in $(hierarchies); do
        delegate "$at" && mkdir "$at/$group" || return
    done
}

# Returns when the last process inside has ended: the first process of a namespace takes all others with it.
make_groups && unshare --mount --pid --fork --propagation private -- sh -c "$inside" node "$folder" "$programs" "$numa_nodes"
status=$?

# Nobody may be there any more to read what goes wrong from here on.
trap '' PIPE
for at in $(hierarchies); do
    [ ! -d "$at/$group" ] || find "$at/$group" -depth -type d -exec rmdir {} + || status=1
done
rm -rf -- "$folder" || status=1
exit "$status"
