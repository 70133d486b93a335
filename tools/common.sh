# shellcheck shell=bash disable=SC2034  # what is set here is used by the scripts
# Sourced by the scripts of this folder: how they speak, and how they fail. Everything goes to standard error, so that
# a script's result can stand alone on standard output.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
program=$(basename "$0")
started=$SECONDS
doing="starting"

# step TEXT: says what comes next; the text is named again when it fails.
step() {
    doing=$1
    printf '==> %s\n' "$1" >&2
}

# die TEXT: what happened and what to do next.
die() {
    trap - ERR
    printf '%s: %s\n' "$program" "$1" >&2
    exit 1
}

report_failure() {
    printf '%s: failed while %s (exit code %s, line %s, after %s s). The lines above say why; the script can be run again.\n' \
        "$program" "$doing" "$1" "$2" "$((SECONDS - started))" >&2
}

set -o errtrace
trap 'report_failure "$?" "$LINENO"' ERR
