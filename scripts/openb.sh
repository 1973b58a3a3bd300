# shellcheck shell=bash
# Sourced by scripts that replay the openb trace: finds the whole trace or the excerpt.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
excerpt=$root/crates/sim/data/openb-excerpt

# fail MESSAGE…: ends the script as wrong use.
fail() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 2
}

# need FILE…: each file must be there.
need() {
    local file
    for file in "$@"; do
        [ -r "$file" ] || fail "$file is missing or unreadable." \
            "OPENB must name a folder with nodes.csv, pods_default.csv and arrivals/default.42.txt; unset it to use the excerpt."
    done
}

# shellcheck disable=SC2034 # trace and source_name are for the script that sources this file
# openb_arguments: sets the array `trace` to the arguments of `simulate`, and `source_name` to words for people.
openb_arguments() {
    if [ -n "${OPENB:-}" ]; then
        [ -d "$OPENB" ] || fail "OPENB=$OPENB is not a folder. Give the folder of the openb trace, or unset OPENB to use the excerpt."
        local folder
        folder=$(cd "$OPENB" && pwd)
        need "$folder/nodes.csv" "$folder/pods_default.csv" "$folder/arrivals/default.42.txt"
        trace=(--trace openb --nodes "$folder/nodes.csv" --pods "$folder/pods_default.csv"
            --order "$folder/arrivals/default.42.txt")
        source_name="the whole trace in $folder"
    else
        if [ ! -r "$excerpt/nodes.csv" ] || [ ! -r "$excerpt/pods.csv" ]; then
            fail "$excerpt lacks nodes.csv or pods.csv; they come with the checkout: git restore crates/sim/data"
        fi
        trace=(--trace openb --nodes "$excerpt/nodes.csv" --pods "$excerpt/pods.csv" --seed 42 --inflate 1.3)
        source_name="the excerpt that ships with the source (OPENB=/path/to/openb takes the whole trace)"
    fi
}
