#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# setup.sh LIST...: installs the Debian packages of the lists that are missing; silent and offline when nothing is.
# Elsewhere than on Debian it checks that what the packages would bring is there, and names what is not.
set -u
[ $# -gt 0 ] || { echo "usage: setup.sh LIST..." >&2; exit 2; }

packages=$(sed -e 's/#.*//' "$@" | tr -s ' \n' ' ') || exit 1

if ! command -v apt-get > /dev/null || ! command -v dpkg-query > /dev/null; then
    missing=
    for tool in cmake ninja cc pkg-config mpicc mpiexec; do
        command -v "$tool" > /dev/null || missing="$missing $tool"
    done
    for library in jansson libxxhash zlib cmocka; do
        pkg-config --exists "$library" 2> /dev/null || missing="$missing $library"
    done
    [ -z "$missing" ] && exit 0
    echo "setup: this is not a Debian system and these are missing:$missing" >&2
    echo "setup: install, by your system's package manager, what Debian calls:$packages" >&2
    exit 1
fi

missing=
for package in $packages; do
    case $(dpkg-query -W -f '${Status}' "$package" 2> /dev/null) in
    *' installed') ;;
    *) missing="$missing $package" ;;
    esac
done
[ -z "$missing" ] && exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo > /dev/null; then
        echo "setup: these packages are missing and there is no sudo; as root, type: apt-get install$missing" >&2
        exit 1
    fi
    as_root=sudo
fi

install_missing() {
    # shellcheck disable=SC2086
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
}

echo "setup: installing$missing" >&2
# The package lists of a fresh or an old system are empty or stale: refresh them only when the first attempt fails.
if ! install_missing > /dev/null 2>&1; then
    $as_root apt-get update > /dev/null || echo "setup: the package lists could not be refreshed" >&2
    if ! install_missing >&2; then
        echo "setup: could not install$missing; is there a network, or a mirror in /etc/apt/sources.list?" >&2
        exit 1
    fi
fi
