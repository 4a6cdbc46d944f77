#!/bin/sh
# Set up .venv with the package and its shaders, and a Vulkan driver where none answers. Safe to repeat.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
apt_install() {
    command -v apt-get >/dev/null || { echo "setup: please install: $*" >&2; exit 2; }
    echo "setup: installing $*"
    as_root apt-get update -qq && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
}

command -v "$python" >/dev/null || apt_install python3
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
    echo "setup: found $("$python" -V), expected Python 3.10 or newer (set PYTHON)" >&2; exit 2; }
"$python" -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv

[ -x .venv/bin/python ] || "$python" -m venv .venv
if [ ! -e .venv/ready ] || [ pyproject.toml -nt .venv/ready ] || [ setup.py -nt .venv/ready ]; then
    echo "setup: installing the package into .venv and compiling its shaders"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
    touch .venv/ready
fi
.venv/bin/python shaders/build.py
found=0
message=$(.venv/bin/spvk devices 2>&1 >/dev/null) || found=$?
case $found in
    0) ;;
    2) echo "setup: $message"; apt_install libvulkan1 mesa-vulkan-drivers ;;  # no loader or no driver answers
    *) echo "$message" >&2; exit 1 ;;
esac
