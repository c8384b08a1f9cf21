# SPDX-License-Identifier: Apache-2.0
"""Small models with random weights as today's exporter of PyTorch writes them (torch.onnx.export with dynamo=True), for tests of the import.

    python make_dynamo.py FOLDER [MODEL ...]

Needs torch, torchvision, transformers, onnx and onnxscript (2.15, 0.29, 5.24, 1.23 and 0.7 made those in tests/golden/onnx).
make_onnx.py then computes what they give. Of the notes on nodes those that the import reads are kept: the rest names lines of the exporting program.
"""
import os
import sys
import warnings

import onnx
import torch
import torchvision
import transformers
from make_exports import Outputs, llama_config, shaken

warnings.filterwarnings("ignore")
LENGTH = 8
KEPT = ("pkg.torch.onnx.name_scopes", "pkg.torch.onnx.fx_node")


def models():
    """Each of them: its name, the model, the names of its inputs, samples of them, whether the batch stays open."""
    torch.manual_seed(22)
    t = transformers
    ids = torch.randint(5, 16, (2, LENGTH))
    keep = torch.ones(2, LENGTH, dtype=torch.long)
    keep[1, 5:] = 0
    size = dict(vocab_size=24, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24)
    two = ["input_ids", "attention_mask"]
    bert = t.BertConfig(**size, max_position_embeddings=12)
    roberta = t.RobertaConfig(**size, max_position_embeddings=14, type_vocab_size=1, pad_token_id=1)
    gpt2 = t.GPT2Config(vocab_size=24, n_embd=16, n_layer=1, n_head=2, n_positions=12, use_cache=False)
    llama = t.LlamaConfig(**size, num_key_value_heads=1, max_position_embeddings=12, use_cache=False)
    vit = t.ViTConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24, image_size=32, patch_size=8, num_labels=10)
    image = torch.randn(2, 3, 32, 32)
    yield "dynamo-bert", t.BertForSequenceClassification(bert), two, (ids, keep), True
    yield "dynamo-roberta", t.RobertaForSequenceClassification(roberta), two, (ids, keep), True
    yield "dynamo-gpt2", t.GPT2LMHeadModel(gpt2), two, (ids, keep), True
    yield "dynamo-llama", t.LlamaForCausalLM(llama), two, (ids, keep), True
    yield "dynamo-vit", t.ViTForImageClassification(vit), ["pixel_values"], (image,), True
    torchvision_vit = torchvision.models.VisionTransformer(32, 8, 1, 2, 16, 24, num_classes=10)
    torchvision_vit.heads.head.weight.data = 0.25 * torch.randn(10, 16)
    yield "dynamo-vit-fixed", torchvision_vit, None, (image,), False
    torch.manual_seed(23)
    yield "llama-new", t.LlamaForCausalLM(llama_config()), ["input_ids"], (ids,), True


def main():
    for name, model, names, inputs, is_open in models():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        path = os.path.join(sys.argv[1], name + ".onnx")
        model = shaken(model).eval()
        batch, length = torch.export.Dim("batch"), torch.export.Dim("sequence", max=12)
        axes = tuple({0: batch, 1: length} if one.dim() == 2 else {0: batch} for one in inputs)
        how = {"dynamic_shapes": {"inputs": axes} if names else axes} if is_open else {}
        inputs = inputs if is_open else tuple(one[:1] for one in inputs)
        torch.onnx.export(Outputs(model, names) if names else model, inputs, path, dynamo=True, external_data=False, verbose=False,
                          input_names=names or ["image"], **how)
        file = onnx.load(path)
        for node in file.graph.node:
            kept = [one for one in node.metadata_props if one.key in KEPT]
            del node.metadata_props[:]
            node.metadata_props.extend(kept)
        del file.graph.value_info[:]
        onnx.save(file, path)


if __name__ == "__main__":
    main()
