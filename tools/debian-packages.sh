#!/bin/sh
# Installs Debian packages, if it may and must.
#
#   tools/debian-packages.sh               the packages of debian-packages.txt whose command is missing
#   tools/debian-packages.sh LIST.txt      those of another list
#   tools/debian-packages.sh PACKAGE...    these packages
#
# Without root or apt-get, or when apt keeps failing, it says what is missing and exits 0: whoever needs a
# missing command says so again.
set -eu

attempts=4

missing_packages() {
    while read -r package proof; do
        case $package in '' | '#'*) continue ;; esac
        is_there "$proof" || echo "$package"
    done <"$1" | sort -u
}

# A command, or a path that may be a pattern.
is_there() {
    case $1 in
    # shellcheck disable=SC2086
    /*) ls -d $1 >/dev/null 2>&1 ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

install_packages() {
    export DEBIAN_FRONTEND=noninteractive
    options='-o Acquire::Retries=3 -o Acquire::http::Timeout=30 -o DPkg::Lock::Timeout=120'
    attempt=1
    # The options are words to split, as are the package names below.
    # shellcheck disable=SC2086
    until apt-get $options update && apt-get $options install -y --no-install-recommends "$@"; do
        [ "$attempt" -lt "$attempts" ] || return 1
        echo "debian-packages: attempt $attempt of $attempts failed, trying again" >&2
        sleep $((attempt * 5))
        attempt=$((attempt + 1))
    done
}

list=
case ${1-} in
'') list=$(dirname "$0")/debian-packages.txt ;;
*.txt) list=$1 ;;
esac
# shellcheck disable=SC2046
[ -z "$list" ] || set -- $(missing_packages "$list")
[ $# -gt 0 ] || exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1 && install_packages "$@"; then
    exit 0
fi
echo "debian-packages: missing: $*   (apt-get install $*)" >&2
