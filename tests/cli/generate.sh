#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# covers: generate
# Text from decoders: the published text of stories260K to the letter (where that is at hand); a model that was trained here, by its run
# folder; equal seeds and other ones; the end of the context; what is refused.
. "$(dirname "$0")/check.inc"

# ---- A small model of bytes ----

i=0
while [ $i -lt 300 ]; do
    printf 'abcdefghijklmnopqrstuvwxyz\303\251.'
    i=$((i + 1))
done > "$work/text.txt"
"$QSYNC" train --model gpt2:layers=1,hidden=32,heads=2,inner=64,vocab=256,positions=64,dropout=0 --dataset "text:$work/text.txt,vocab=bytes,length=32" \
    --batch 16 --epochs 12 --optimizer adam --rate 0.01 --out "$work/run" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "train"; }
weights=$work/run/weights.safetensors

generate() { # FILE ARGUMENTS...: text into FILE
    file=$1
    shift
    "$QSYNC" generate "$@" > "$file" 2> "$work/err" || { cat "$work/err"; fail "generate $*"; }
}
generate "$work/greedy" "$weights" --prompt 'klmnopqrs' --tokens 20 --temperature 0
[ "$(cat "$work/greedy")" = 'klmnopqrstuvwxyzé.abcdefghij' ] || fail "the model did not learn its text: $(cat "$work/greedy")"
grep -q '20 tokens behind 9' "$work/err" || { cat "$work/err"; fail "the summary is missing"; }
# The same of a prompt in a file, which goes in blocks and single positions, and of any context that is long enough.
printf 'klmnopqrstuvwxyz\303\251.a' > "$work/prompt"
generate "$work/file" "$weights" --prompt-file "$work/prompt" --tokens 9 --temperature 0 --context 30
cmp -s "$work/greedy" "$work/file" || fail "a prompt in a file gives other text"
# Characters go out whole, what is left of one at the end does not pass for one.
generate "$work/half" "$weights" --prompt 'vwxyz' --tokens 1 --temperature 0
[ "$(cat "$work/half")" = "vwxyz$(printf '\357\277\275')" ] || fail "half a character is written as $(od -c "$work/half")"
# Draws: high temperatures, so that there are choices.
generate "$work/one" "$weights" --prompt 'ab' --tokens 28 --seed 3 --temperature 3
generate "$work/same" "$weights" --prompt 'ab' --tokens 28 --seed 3 --temperature 3
generate "$work/other" "$weights" --prompt 'ab' --tokens 28 --seed 4 --temperature 3
generate "$work/sure" "$weights" --prompt 'klmnopqrs' --tokens 20 --seed 4 --temperature 3 --top-p 0.001
cmp -s "$work/one" "$work/same" || fail "equal seeds gave unequal texts"
cmp -s "$work/one" "$work/other" && fail "another seed gave the same text"
cmp -s "$work/greedy" "$work/sure" || fail "the first of the most probable ids is not the most probable one"
iconv -f UTF-8 -t UTF-8 "$work/one" > /dev/null || fail "the text is no UTF-8"
"$QSYNC" generate "$weights" --prompt 'klmnopqrs' --tokens 20 --temperature 0 --json > "$work/json" 2> "$work/err" || { cat "$work/err"; fail "--json"; }
jq -j .text "$work/json" | cmp -s - "$work/greedy" || { cat "$work/json"; fail "--json has other text"; }
"$QSYNC" generate "$weights" --prompt 'klmnopqrs' --tokens 1 --json 2> "$work/err" | jq -e '.tokens == 1 and .tokens_per_s == 0' > /dev/null ||
    fail "a pace is told of a token that came with the prompt"
jq -e '.tokens == 20 and .prompt_tokens == 9 and .stopped == "tokens" and (.ids | length) == 20 and .tokens_per_s > 0' "$work/json" > /dev/null ||
    { cat "$work/json"; fail "--json does not say what happened"; }
# The model was trained on 32 positions: 9 and 23 more are read, and what follows the last of them is added.
generate "$work/full" "$weights" --prompt 'klmnopqrs' --tokens 100 --temperature 0
grep -q 'the context has 32 positions' "$work/err" || { cat "$work/err"; fail "nothing is said of the context"; }
[ "$(wc -c < "$work/full")" -eq 33 ] || fail "the context holds $(wc -c < "$work/full") bytes"
generate "$work/most" "$weights" --prompt 'klmnopqrs' --tokens 9223372036854775807 --temperature 0
cmp -s "$work/full" "$work/most" || fail "the context does not bound --tokens"

# ---- Models that others describe: the same weights as a file without metadata, beside a config.json ----

mkdir "$work/others"
plain() { # FILE NEW-FILE
    python=$(command -v python3) && "$python" - "$@" << 'PYTHON'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
head = json.loads(data[8:8 + size])
head.pop("__metadata__")
text = json.dumps(head).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size:])
PYTHON
}
plain "$weights" "$work/others/model.safetensors"
if [ -f "$work/others/model.safetensors" ]; then
    refuse 2 'say it with --model' generate "$work/others/model.safetensors" --vocab bytes --prompt a
    echo '{"model_type": "gpt2", "n_layer": 1, "n_embd": 32, "n_head": 2, "n_inner": 64, "vocab_size": 256, "n_positions": 64,
        "layer_norm_epsilon": 1e-05, "activation_function": "gelu_new"}' > "$work/others/config.json"
    generate "$work/described" "$work/others/model.safetensors" --prompt 'klmnopqrs' --tokens 20 --temperature 0
    cmp -s "$work/greedy" "$work/described" || fail "the model of a config.json gives other text"
    sed -i 's/gelu_new/relu/' "$work/others/config.json"
    refuse 1 'another activation_function than gelu_new' generate "$work/others/model.safetensors" --prompt a
    sed -i 's/gelu_new/relu/; s/"n_layer": 1,//' "$work/others/config.json"
    refuse 1 'activation_function' generate "$work/others/model.safetensors" --prompt a
    sed -i 's/relu/gelu_new/' "$work/others/config.json"
    refuse 1 'n_layer is missing' generate "$work/others/model.safetensors" --prompt a
    sed -i 's/"n_inner": 64/"n_layer": 1, "n_inner": "64"/' "$work/others/config.json"
    refuse 1 'n_inner is something else, must be a number' generate "$work/others/model.safetensors" --prompt a
    sed -i 's/"n_inner": "64"/"n_inner": 64, "scale_attn_weights": false/' "$work/others/config.json"
    refuse 1 'another scale_attn_weights than true' generate "$work/others/model.safetensors" --prompt a
    sed -i 's/"scale_attn_weights": false/"scale_attn_weights": true/' "$work/others/config.json"
    generate "$work/described" "$work/others/model.safetensors" --prompt 'klmnopqrs' --tokens 20 --temperature 0
    cmp -s "$work/greedy" "$work/described" || fail "the model of a config.json that says what is usual gives other text"
    echo '{"hidden_size": 32}' > "$work/others/config.json"
    refuse 2 'has no model_type' generate "$work/others/model.safetensors" --prompt a
    echo '{"model_type": "bert"}' > "$work/others/config.json"
    refuse 1 'of the type bert' generate "$work/others/model.safetensors" --prompt a
    echo '{' > "$work/others/config.json"
    refuse 1 'config.json' generate "$work/others/model.safetensors" --prompt a

    # Decoders of the kind llama: the base of rotary positions stands in either of two places.
    "$QSYNC" train --model llama:layers=1,hidden=32,heads=2,kv=1,inner=64,vocab=256,positions=64,base=500 \
        --dataset "text:$work/text.txt,vocab=bytes,length=32" --batch 16 --epochs 1 --out "$work/llama" > "$work/out" 2> "$work/err" ||
        { cat "$work/err"; fail "train llama"; }
    plain "$work/llama/weights.safetensors" "$work/others/model.safetensors"
    generate "$work/llama.txt" "$work/llama/weights.safetensors" --prompt 'klm' --tokens 8 --temperature 0
    llama() { # SETTINGS: a config.json with these beside the weights
        echo '{"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1,
            "vocab_size": 256, "max_position_embeddings": 64, "intermediate_size": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": true,
            '"$1"'}' > "$work/others/config.json"
    }
    for said in '"rope_theta": 500.0, "rope_scaling": null' '"rope_parameters": {"rope_theta": 500.0, "rope_type": "default"}'; do
        llama "$said"
        "$QSYNC" generate "$work/others/model.safetensors" --prompt 'klm' --tokens 8 --temperature 0 --json > "$work/json" 2> "$work/err" ||
            { cat "$work/err"; fail "generate with $said"; }
        jq -r .model "$work/json" | grep -q ',base=500$' || fail "$said gives $(jq -r .model "$work/json")"
        jq -j .text "$work/json" | cmp -s - "$work/llama.txt" || fail "$said gives other text"
    done
    llama '"rope_theta": 500.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}'
    refuse 1 'another rope_scaling than none' generate "$work/others/model.safetensors" --prompt a
    llama '"rope_parameters": {"rope_theta": 500.0, "rope_type": "llama3"}'
    refuse 1 'another rope_type than default' generate "$work/others/model.safetensors" --prompt a
fi

# ---- What is refused ----

refuse 2 'the prompt has 7 ids, the context 5 positions' generate "$weights" --prompt 'the cat' --context 5
refuse 2 'has rows for 64' generate "$weights" --prompt 'the cat' --context 65 --tokens 100
refuse 2 'give a --prompt' generate "$weights"
refuse 2 '--temperature -1' generate "$weights" --prompt a --temperature -1
refuse 2 'top-p 0:' generate "$weights" --prompt a --top-p 0
refuse 2 'top-p 1.5:' generate "$weights" --prompt a --top-p 1.5
refuse 2 '--tokens 0' generate "$weights" --prompt a --tokens 0
refuse 2 'prompt-file' generate "$weights" --prompt a --prompt-file "$work/prompt"
refuse 1 "$work/none" generate "$weights" --prompt-file "$work/none"
refuse 1 "$work/none.safetensors" generate "$work/none.safetensors" --model gpt2:mini --vocab bytes --prompt a
refuse 1 'none.bin' generate "$weights" --vocab "$work/none.bin" --prompt a
refuse 2 'lenet5' generate "$weights" --model nothing --prompt a
seq 300 > "$work/vocab.txt"
printf '[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\n' >> "$work/vocab.txt"
refuse 1 'is the vocabulary of another model' generate "$weights" --vocab "$work/vocab.txt" --prompt a
refuse 2 'has 50257 ids' generate "$weights" --model gpt2:mini --prompt a
refuse 1 'no decoder' generate "$weights" --model bert:tiny,vocab=256 --vocab bytes --prompt a
refuse 1 'no decoder' generate "$weights" --model lenet5 --vocab bytes --prompt a
refuse 1 'gpt2' generate "$weights" --model gpt2:layers=2,hidden=32,heads=2,inner=64,vocab=256,positions=64 --prompt a

# ---- The published text ----

models=${QS_TEST_SHARED:-}/data/models/stories260K
if [ -f "$models/stories260K.bin" ]; then
    generate "$work/story" "$models/stories260K.bin" --vocab "$models/tok512.bin" --tokens 200 --temperature 0
    cmp "$work/story" "$models/greedy-200.txt" || fail "stories260K gives another text than the published one"
    # What follows a part of it is the rest of it; of two threads as well.
    head -c 120 "$models/greedy-200.txt" > "$work/prompt"
    generate "$work/rest" "$models/stories260K.bin" --vocab "$models/tok512.bin" --prompt-file "$work/prompt" --tokens 60 --temperature 0 --threads 2
    head -c "$(wc -c < "$work/rest")" "$models/greedy-200.txt" | cmp - "$work/rest" || fail "stories260K goes on otherwise"
    # Files of the format say how many positions they have.
    for _ in 1 2 3 4; do cat "$models/greedy-200.txt"; done > "$work/prompt"
    refuse 2 'the context 512 positions' generate "$models/stories260K.bin" --vocab "$models/tok512.bin" --prompt-file "$work/prompt"
fi
finish
