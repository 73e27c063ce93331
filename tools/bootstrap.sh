#!/bin/sh
# Makes .venv and installs Ingot into it, editable, with the extras named.
#
#   tools/bootstrap.sh [EXTRA...]     for example: tools/bootstrap.sh test dev
#   PYTHON=python3.12 tools/bootstrap.sh
#
# What is installed is remembered as .venv/stamps/<hash>-<extra>; the hash covers pyproject.toml and the place of
# the tree (an editable install holds its path), so a second call returns at once.
set -eu
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
venv=.venv

have_venv_modules() {
    "$python" -c 'import ensurepip, venv' >/dev/null 2>&1
}

make_venv() {
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
        echo "bootstrap: Ingot needs Python 3.10 or newer as '$python'; set PYTHON=..." >&2
        exit 1
    fi
    have_venv_modules || tools/debian-packages.sh python3-venv
    if ! have_venv_modules; then
        echo "bootstrap: '$python' has no venv; run: apt-get install python3-venv" >&2
        exit 1
    fi
    "$python" -m venv --clear "$venv"
}

# pip is what venv puts in last.
{ [ -x "$venv/bin/pip" ] && "$venv/bin/python" -c "" 2>/dev/null; } || make_venv

hash=$({ pwd && cat pyproject.toml; } | cksum | cut -d ' ' -f 1)
wanted=
for extra in base "$@"; do
    [ -e "$venv/stamps/$hash-$extra" ] || wanted="$wanted $extra"
done
[ -n "$wanted" ] || exit 0

extras=$(echo "$*" | tr ' ' ',')
echo "bootstrap: installing ingot${extras:+[$extras]} into $venv" >&2
"$venv/bin/python" -m pip install --retries 8 --editable ".${extras:+[$extras]}"
mkdir -p "$venv/stamps"
for extra in $wanted; do
    : >"$venv/stamps/$hash-$extra"
done
