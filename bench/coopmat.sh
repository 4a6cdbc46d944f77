#!/bin/sh
# Run the tests of cooperative matrices without a GPU that has them: in a chroot of Debian's testing suite, whose
# Mesa (26.1 or newer) runs them on the CPU.
#
#     bench/coopmat.sh FOLDER [pytest option …]
#
# FOLDER is made if it is not there (about 1 GB, two minutes) and kept. Needs root, debootstrap and unshare.
set -eu
[ $# -ge 1 ] || { echo "coopmat: expected a folder for the chroot" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "coopmat: a chroot needs root" >&2; exit 2; }
for tool in debootstrap unshare; do
    command -v $tool >/dev/null || { echo "coopmat: $tool: not found; install it" >&2; exit 2; }
done
root=$(realpath -m "$1")
shift
cd "$(dirname "$0")/.."

# The packages come from where this machine's own do.
mirror=$(apt-get indextargets --format '$(REPO_URI)' "Origin: Debian" | grep -v security | head -n 1)

if [ ! -e "$root/ready" ]; then
    echo "coopmat: making a chroot in $root"
    debootstrap --variant=minbase --include=mesa-vulkan-drivers,libvulkan1,python3-venv,ca-certificates \
        testing "$root" "$mirror" /usr/share/debootstrap/scripts/sid > "$root.log" 2>&1 ||
        { echo "coopmat: debootstrap failed, see $root.log" >&2; exit 1; }
    touch "$root/ready"
fi
# Names and certificates as this machine has them.
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
mkdir -p "$root/spvk"
tar c --exclude=.git --exclude=.venv --exclude=./build --exclude=__pycache__ --exclude=spirv . |
    tar x -C "$root/spvk"

# The mount lives in a namespace of its own, and goes with it.
exec unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" sh -c '"'"'
    set -eu
    cd /spvk
    [ -x .venv/bin/python ] || python3 -m venv .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
    .venv/bin/python shaders/build.py
    .venv/bin/spvk devices
    exec .venv/bin/python -m pytest -m coopmat "$@"
'"'"' sh "$@"' "$root" "$@"
