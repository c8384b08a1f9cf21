# SPDX-License-Identifier: Apache-2.0
"""Small models with random weights as PyTorch exports them, for tests of the import.

    python make_exports.py FOLDER [MODEL ...]

Needs torch, torchvision and transformers (1.13, 0.14 and 4.30 made those in tests/golden/onnx); for the recurrent ones torch alone (2.15
made those), for Llama 2.15 and 5.24. make_onnx.py then computes what they give.
"""
import inspect
import os
import sys
import types
import warnings

import torch

warnings.filterwarnings("ignore")
LENGTH = 8


def shaken(model):
    """Biases, scales and running statistics are not all alike, so that exporters merge none and none is left out unseen."""
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.1 * torch.randn_like(parameter)
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer += 0.1 * torch.randn_like(buffer)
        if name.endswith("running_var"):
            buffer *= torch.rand_like(buffer) + 0.5
    return model


class Outputs(torch.nn.Module):
    """A model of transformers by its inputs in order, with the outputs that it is exported for."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        out = self.model(**dict(zip(self.names, inputs)))
        return (out.start_logits, out.end_logits) if hasattr(out, "start_logits") else out.logits


class Gated(torch.nn.Module):
    """What models of images of the last years are made of, in one small one."""

    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish())
        self.deep = nn.Sequential(nn.Conv2d(16, 16, 5, padding=4, dilation=2, groups=16), nn.GroupNorm(4, 16), nn.SiLU())
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 4, 1), nn.ReLU(), nn.Conv2d(4, 16, 1), nn.Hardsigmoid())
        self.up = nn.Sequential(nn.ConvTranspose2d(16, 8, 3, 2, 1, output_padding=1), nn.PReLU(8), nn.Upsample(scale_factor=0.5))
        self.norm, self.mlp = nn.LayerNorm(24), nn.Sequential(nn.Linear(24, 32), nn.GELU(), nn.Linear(32, 24))
        self.scale = nn.Parameter(0.1 * torch.randn(24))
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(24 * 25, 20), nn.LeakyReLU(0.1), nn.BatchNorm1d(20), nn.ELU(), nn.Linear(20, 7))

    def forward(self, x):
        x = self.stem(x)
        y = self.deep(x)
        y = torch.nn.functional.max_pool2d(y * self.squeeze(y) + x, 3, 2, 1, ceil_mode=True)
        y = torch.cat([y, torch.nn.functional.pad(self.up(y), (0, 0, 0, 0))], 1)
        z = self.mlp(self.norm(y.permute(0, 2, 3, 1))) * self.scale
        y = y + z.permute(0, 3, 1, 2)
        a, b = y.chunk(2, 1)
        y = torch.stack([a, b], 2).flatten(1, 2)
        return torch.log_softmax(self.head(y), 1)


def resnet18():
    """torchvision's resnet18 with a sixteenth of its channels, for ten classes."""
    import torchvision

    class ResNet18(torchvision.models.ResNet):
        def __init__(self):
            super().__init__(torchvision.models.resnet.BasicBlock, [2, 2, 2, 2], num_classes=10)
            self.conv1, self.bn1 = torch.nn.Conv2d(3, 4, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(4)
            self.fc = torch.nn.Linear(32, 10)

        def _make_layer(self, block, planes, *others, **named):
            self.inplanes = 4 if planes == 64 else self.inplanes
            return super()._make_layer(block, planes // 16, *others, **named)

    return ResNet18()


class Recurrent(torch.nn.Module):
    """A classifier of texts by a recurrent network, from its last states or from the mean of all."""

    def __init__(self, kind, layers, both, last, **more):
        super().__init__()
        self.words = torch.nn.Embedding(24, 12)
        self.net = getattr(torch.nn, kind)(12, 10, layers, batch_first=True, bidirectional=both, **more)
        self.last, self.parts = last, 1 + both
        self.head = torch.nn.Linear(10 * self.parts, 5)

    def forward(self, input_ids):
        states, last = self.net(self.words(input_ids))
        last = last[0] if isinstance(last, tuple) else last
        if self.last:
            return types.SimpleNamespace(logits=self.head(torch.cat([last[-1 - i] for i in range(self.parts)], 1)))
        return types.SimpleNamespace(logits=self.head(states.mean(1)))


RECURRENT = ("lstm", "gru", "rnn", "lstm-folded")


def recurrent():
    """As models(); the folded one has its parameters in ONNX's tensors, the others have them as PyTorch does."""
    torch.manual_seed(23)
    ids, names = (torch.randint(5, 16, (2, LENGTH)),), ["input_ids"]
    yield "lstm", Recurrent("LSTM", 2, True, False).train(), names, ids, 17, True
    yield "gru", Recurrent("GRU", 1, False, True).train(), names, ids, 14, True
    yield "rnn", Recurrent("RNN", 2, True, True, nonlinearity="tanh").train(), names, ids, 14, True
    yield "lstm-folded", Recurrent("LSTM", 1, True, True).eval(), names, ids, 17, False


LLAMA = ("llama-old",)


def llama_config():
    """Six heads of four channels, of which three share a key: no extent is another's."""
    import transformers

    return transformers.LlamaConfig(vocab_size=29, hidden_size=24, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
                                    intermediate_size=20, max_position_embeddings=16, rope_theta=50000.0, use_cache=False)


def llamas():
    """As models()."""
    import transformers

    torch.manual_seed(23)
    ids, keep = torch.randint(5, 16, (2, LENGTH)), torch.ones(2, LENGTH, dtype=torch.long)
    keep[1, 5:] = 0
    model = shaken(transformers.LlamaForCausalLM(llama_config())).eval()
    yield "llama-old", model, ["input_ids", "attention_mask"], (ids, keep), 17, False


def models(wanted=()):
    """Each of them: its name, the model, the names of its inputs (None: an image), samples of them, the opset, whether for training."""
    of_today = set(RECURRENT + LLAMA)
    if not wanted or not set(wanted) <= of_today:
        yield from others()
    if not wanted or set(wanted) & set(RECURRENT):
        yield from recurrent()
    if not wanted or set(wanted) & set(LLAMA):
        yield from llamas()


def others():
    import torchvision
    import transformers

    torch.manual_seed(22)
    t = transformers
    ids = torch.randint(5, 16, (2, LENGTH))
    keep = torch.ones(2, LENGTH, dtype=torch.long)
    keep[1, 5:] = 0
    types = torch.randint(0, 2, (2, LENGTH))
    size = dict(vocab_size=24, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24)
    bert = t.BertConfig(**size, max_position_embeddings=12)
    roberta = t.RobertaConfig(**size, max_position_embeddings=14, type_vocab_size=1, pad_token_id=1)
    distilbert = t.DistilBertConfig(vocab_size=24, dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=12)
    gpt2 = t.GPT2Config(vocab_size=24, n_embd=16, n_layer=2, n_head=2, n_positions=12, use_cache=False)
    image, three, two = torch.randn(2, 3, 16, 16), ["input_ids", "attention_mask", "token_type_ids"], ["input_ids", "attention_mask"]
    vit = torchvision.models.VisionTransformer(32, 8, 2, 2, 16, 24, num_classes=10)
    # torchvision begins with zeros, and nothing before them would show.
    vit.heads.head.weight.data = 0.25 * torch.randn(10, 16, generator=torch.Generator().manual_seed(22))
    swin = torchvision.models.SwinTransformer([2, 2], 8, [2, 2], [2, 4], [4, 4], num_classes=7)
    for name, model, names, inputs, opset in [
        ("bert-span", t.BertForQuestionAnswering(bert), three, (ids, keep, types), 13),
        ("bert-tokens", t.BertForMaskedLM(bert), three, (ids, keep, types), 11),
        ("roberta-class", t.RobertaForSequenceClassification(roberta), two, (ids, keep), 14),
        ("distilbert-class", t.DistilBertForSequenceClassification(distilbert), two, (ids, keep), 14),
        ("gpt2-tokens", t.GPT2LMHeadModel(gpt2), two, (ids, keep), 13),
        ("vit", vit, None, (torch.randn(2, 3, 32, 32),), 14),
        ("swin", swin, None, (image,), 14),
        ("gated", Gated(), None, (image,), 14),
    ]:
        yield name, shaken(model).eval(), names, inputs, opset, False
    image = (torch.randn(2, 3, 64, 64),)
    yield "resnet18", shaken(resnet18()).train(), None, image, 14, True
    settings, _ = torchvision.models.mobilenetv3._mobilenet_v3_conf("mobilenet_v3_small", width_mult=0.125)
    yield "mobilenet_v3", shaken(torchvision.models.MobileNetV3(settings, 64, 10, dropout=0)).train(), None, image, 14, True


def main():
    for name, model, names, inputs, opset, training in models(sys.argv[2:]):
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        axes = {one: {0: "batch", 1: "sequence"} if names else {0: "batch"} for one in names or ["image"]}
        how = {"training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False} if training else {}
        if "dynamo" in inspect.signature(torch.onnx.export).parameters:
            how["dynamo"] = False
        torch.onnx.export(Outputs(model, names) if names else model, inputs, os.path.join(sys.argv[1], name + ".onnx"), opset_version=opset,
                          input_names=names or ["image"], dynamic_axes=axes, **how)


if __name__ == "__main__":
    main()
